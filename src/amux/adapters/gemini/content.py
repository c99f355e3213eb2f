"""Splits Google's contents into text, thoughts, calls, results and images.

A content is a string, a part, or a list of both. Parts of an unexpected shape are ignored.

The texts of a user message are either typed by a person or injected by the agent: context,
continuations, tasks. Gemini CLI mostly writes injected texts as parts or messages of their own, so
each part is classified separately. Only the context of an editor or of a hook may precede a prompt
in the same part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from amux.adapters._kit.injected import InjectedTexts
from amux.adapters._kit.values import is_mapping, items, mapping, plain_text, text
from amux.adapters.gemini.injected import HOOK_CONTEXT, IDE_CONTEXT
from amux.model.message import SessionToolCall

_IMAGE_TYPE: Final = re.compile(r"image/[\w.+-]{1,40}")
_EXIT_CODE: Final = re.compile(
    r"(?:^|\n)Exit Code: (-?\d{1,10})"
    r"(?:\n[A-Z][A-Za-z ]{0,40}: [^\n]{0,200})*\s*(?:</[a-z_]{1,40}>)?\s*\Z"
)
_TAIL: Final = 2000  # the exit code of a command follows its output
_SHELL_TOOLS: Final = frozenset({"run_shell_command", "shell", "bash"})
_FAILED: Final = frozenset({"error", "cancelled", "canceled", "failed"})

ACKNOWLEDGED: Final = frozenset(
    {
        "Got it. Thanks for the context!",
        "Got it. Thanks for the additional context!",
    }
)
"""Answers that no model wrote: the agent puts them after a context that it injects."""

AFTER_SNAPSHOT: Final = "Got it. Thanks for the additional context!"
"""The injected answer that follows the summary of a compression."""

_REFERENCED: Final = "--- Content from referenced files ---"
_CONTEXT: Final = re.compile(
    rf"(?:\s*(?:<{HOOK_CONTEXT}>(?s:.*?)</{HOOK_CONTEXT}>"
    rf"|{IDE_CONTEXT}[^\n]*(?:\nCurrent [A-Z][\w ]{{0,40}}:[^\n]*)*))+\s*"
)
"""Context that may precede a prompt in the same text."""
_TASK: Final = re.compile(
    r"\s*Your task is(?::| to )(?s:.{0,2000}?)<(objective|question|task)>\n(?s:.*)\n</\1>"
)


class ResultPart(msgspec.Struct, frozen=True):
    """A tool result."""

    id: str | None
    name: str
    response: Any


class CallPart(msgspec.Struct, frozen=True):
    """A tool call."""

    id: str | None
    name: str
    args: Any


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a content by kind, each kind in recorded order."""

    texts: tuple[str, ...] = ()
    thoughts: tuple[str, ...] = ()
    calls: tuple[CallPart, ...] = ()
    results: tuple[ResultPart, ...] = ()
    images: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The visible text, without thoughts."""
        return "".join(self.texts)


def part_list(content: object) -> list[Any]:
    """Return a content as a list of parts."""
    if isinstance(content, str):
        return [content]
    if is_mapping(content):
        return part_list(content["parts"]) if "parts" in content else [content]
    return items(content)


def split_parts(content: object) -> Parts:
    """Return the parts of a content by kind."""
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[CallPart] = []
    results: list[ResultPart] = []
    images: list[str] = []
    for part in part_list(content):
        if isinstance(part, str):
            texts.append(part)
            continue
        fields = mapping(part)
        words = fields.get("text")
        if isinstance(words, str):
            (thoughts if fields.get("thought") is True else texts).append(words)
        if call := mapping(fields.get("functionCall")):
            id, name = text(call.get("id")), text(call.get("name")) or ""
            calls.append(CallPart(id, name, call.get("args")))
        if result := mapping(fields.get("functionResponse")):
            id, name = text(result.get("id")), text(result.get("name")) or ""
            results.append(ResultPart(id, name, result.get("response")))
        inline = mapping(fields.get("inlineData"))
        kind, data = inline.get("mimeType"), inline.get("data")
        if isinstance(kind, str) and isinstance(data, str) and _IMAGE_TYPE.fullmatch(kind):
            images.append(f"data:{kind};base64,{data}")
    return Parts(
        texts=tuple(texts),
        thoughts=tuple(thoughts),
        calls=tuple(calls),
        results=tuple(results),
        images=tuple(images),
    )


def tool_call(part: CallPart, call_id: str) -> SessionToolCall:
    """Return the tool call of a message."""
    return SessionToolCall(tool_call_id=call_id, tool_name=part.name, input=part.args)


def response_text(response: object) -> str:
    """Return the readable text of a tool's response."""
    fields = mapping(response)
    for name in ("output", "error", "content", "result"):
        if isinstance(fields.get(name), str):
            return str(fields[name])
    return plain_text(response)


def has_failed(name: str, status: object, responses: Iterable[object]) -> bool | None:
    """Return whether a tool call failed; None if neither status nor response tells.

    A command with a non-zero exit code is recorded as a success: only its output has the code.
    """
    if isinstance(status, str) and status.lower() in _FAILED:
        return True
    given = list(responses)
    for response in given:
        fields = mapping(response)
        if fields.get("error") is not None and "output" not in fields:
            return True
        if name in _SHELL_TOOLS:
            exited = _EXIT_CODE.search(response_text(response)[-_TAIL:])
            if exited is not None and int(exited[1]):
                return True
    return False if given or status == "success" else None


class UserTexts(msgspec.Struct, frozen=True):
    """The texts of one user message: those a person typed, and those the agent injected."""

    typed: tuple[str, ...] = ()
    injected: tuple[str, ...] = ()


def is_task(text: str) -> bool:
    """Return whether a text is the task that the agent gives to one of its own sub-agents."""
    return _TASK.match(text) is not None


def split_user_texts(
    texts: Sequence[str], injected_texts: InjectedTexts, *, delegated: bool
) -> UserTexts:
    """Split the texts of a user message; if `delegated`, a sub-agent's task counts as typed."""
    typed: list[str] = []
    injected: list[str] = []
    for index, words in enumerate(texts):
        if typed and words.lstrip().startswith(_REFERENCED):
            injected.extend(texts[index:])  # the files that a prompt refers to, one part each
            break
        found = _CONTEXT.match(words) if injected_texts.begins(words) else None
        context, rest = (words[: found.end()], words[found.end() :]) if found else ("", words)
        if injected_texts.begins(rest) or (not delegated and is_task(rest)):
            context, rest = words, ""
        injected += [context] if context else []
        typed += [rest] if rest else []
    if not any(words.strip() for words in typed):
        typed = []
    return UserTexts(tuple(typed), tuple(injected))
