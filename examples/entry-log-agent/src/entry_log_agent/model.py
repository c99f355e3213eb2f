"""A stand-in for a model: it answers by rules, calls one tool, and can summarize."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

Message = dict[str, Any]

NAME = "stand-in-1"


def answer(messages: Sequence[Message]) -> Message:
    """Return the next message of the assistant."""
    last = messages[-1]
    if last["role"] == "tool_result":
        count = len(text_of(last).split())
        return _message(messages, {"type": "text", "text": f"There are {count} files here."})
    prompt = text_of(last)
    if "files" in prompt.lower():
        number = sum(1 for each in messages if each["role"] == "tool_result") + 1
        call: Message = {"type": "tool_call", "id": f"call_{number}", "name": "list_files"}
        call["arguments"] = {}
        return _message(messages, call)
    return _message(messages, {"type": "text", "text": f"You said: {prompt}"})


def summarize(messages: Sequence[Message]) -> str:
    """Return a summary of messages, in Markdown."""
    prompts = [text_of(each) for each in messages if each["role"] == "user"]
    return "\n".join(["## Asked so far", *(f"- {' '.join(prompt.split())}" for prompt in prompts)])


def run_tool(call: Message, cwd: str) -> Message:
    """Run a tool call and return its result as a message."""
    result: Message = {
        "role": "tool_result",
        "tool_call_id": call["id"],
        "tool_name": call["name"],
        "is_error": False,
    }
    try:
        result["content"] = "\n".join(sorted(path.name for path in Path(cwd).iterdir()))
    except OSError as error:
        result |= {"content": str(error), "is_error": True}
    return result


def text_of(message: Message) -> str:
    """Return the text of a message."""
    return "\n".join(block["text"] for block in message["content"] if block["type"] == "text")


def count_tokens(messages: Sequence[Message]) -> int:
    """Return a rough number of tokens: the words of all texts."""
    return sum(len(text_of(message).split()) for message in messages)


def _message(messages: Sequence[Message], block: Message) -> Message:
    given, made = count_tokens(messages), len(str(block.get("text", "")).split()) + 1
    return {
        "role": "assistant",
        "content": [block],
        "model": NAME,
        "provider": "none",
        "usage": {"input": given, "output": made, "total_tokens": given + made},
        "stop_reason": "tool_use" if block["type"] == "tool_call" else "stop",
    }
