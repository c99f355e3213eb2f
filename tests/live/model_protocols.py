"""How the model APIs of Anthropic, OpenAI and Google say one answer.

Each protocol finds the texts of the user in a request, and says an answer as a stream of events and
as one document. The figures of an answer are those of `Served.usage`; a protocol that has no word
for a bucket never bills it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

Json = dict[str, Any]

_ALL: Final = ("input", "cache_read", "cache_write", "output", "thinking")
_NO_CACHE_WRITE: Final = ("input", "cache_read", "output", "thinking")


@dataclass(frozen=True)
class Usage:
    """Billed tokens of one call; the buckets are disjoint, but thinking is part of the output."""

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    thinking: int = 0

    @classmethod
    def of_call(cls, number: int, buckets: tuple[str, ...] = _ALL) -> Usage:
        factors: dict[str, int] = dict(zip(_ALL, (7, 11, 5, 3, 1), strict=True))
        return cls(**{name: factors[name] * 2**number for name in buckets})

    @property
    def sent(self) -> int:
        return self.input + self.cache_read + self.cache_write


@dataclass(frozen=True)
class Tool:
    """A tool call that the model asks for; `input` is what the tool is given.

    `recorded` is the name under which the agent stores the call, if it is another one.
    """

    name: str
    input: Json
    recorded: str | None = None


@dataclass(frozen=True)
class Reply:
    """One answer of the model.

    A stalled one stops half way until it is released, a cut one ends there; one with a status is an
    error instead. `delay` is the number of seconds before the first byte.
    """

    text: str = ""
    tool: Tool | None = None
    stalls: bool = False
    cut: bool = False
    status: int = 200
    delay: float = 0.0


@dataclass
class Served:
    """One answer as it was given. It was billed in full only if `finished`.

    `texts` are those of the user in the request, oldest first.
    """

    number: int
    prompt: str
    model: str
    reply: Reply
    buckets: tuple[str, ...] = _ALL
    texts: tuple[str, ...] = ()
    finished: bool = False
    is_helper: bool = False

    @property
    def usage(self) -> Usage:
        return Usage() if self.is_helper else Usage.of_call(self.number, self.buckets)

    @property
    def thinking(self) -> str:
        return f"Thought {self.number}."

    @property
    def call_id(self) -> str:
        return f"call_live_{self.number}"


@dataclass(frozen=True)
class Event:
    """One event of a stream. The answer is complete, and billed, with the last one."""

    data: Json = field(default_factory=dict[str, Any])
    name: str | None = None
    is_middle: bool = False
    is_last: bool = False

    def encode(self) -> bytes:
        head = "" if self.name is None else f"event: {self.name}\n"
        body = json.dumps(self.data) if self.data else "[DONE]"
        return f"{head}data: {body}\n\n".encode()


class Protocol:
    """What all model APIs have in common."""

    path: str
    buckets: tuple[str, ...] = _ALL

    def serves(self, path: str) -> bool:
        return path.endswith(self.path)

    def model(self, path: str, request: Json) -> str:
        del path
        return str(request.get("model"))

    def streams(self, path: str, request: Json) -> bool:
        del path
        return bool(request.get("stream"))

    def has_tools(self, request: Json) -> bool:
        return bool(request.get("tools"))

    def texts(self, request: Json) -> Iterator[str]:
        """The texts of the user, oldest first."""
        raise NotImplementedError

    def events(self, served: Served) -> Iterator[Event]:
        """The answer as a stream."""
        raise NotImplementedError

    def document(self, served: Served) -> Json:
        """The answer as one document."""
        raise NotImplementedError


class Messages(Protocol):
    """Anthropic's Messages API: one stream of content blocks, the final usage at its end."""

    path = "/v1/messages"

    def texts(self, request: Json) -> Iterator[str]:
        for message in request["messages"]:
            if message["role"] == "user":
                yield from _texts_of(message["content"])

    def events(self, served: Served) -> Iterator[Event]:
        message = self._message(served)
        message.update(content=[], stop_reason=None)
        message["usage"] = {**message["usage"], "output_tokens": 1}
        yield _named({"type": "message_start", "message": message})
        thoughts = [
            {"type": "thinking_delta", "thinking": served.thinking},
            {"type": "signature_delta", "signature": "c2lnbmF0dXJl"},
        ]
        head: Json = {"type": "thinking", "thinking": "", "signature": ""}
        yield from self._block(0, head, thoughts)
        texts = [{"type": "text_delta", "text": piece} for piece in _halves(served.reply.text)]
        yield from self._block(1, {"type": "text", "text": ""}, texts, has_middle=True)
        tool = served.reply.tool
        if tool is not None:
            partial = {"type": "input_json_delta", "partial_json": json.dumps(tool.input)}
            head = {"type": "tool_use", "id": served.call_id, "name": tool.name, "input": {}}
            yield from self._block(2, head, [partial])
        stop = {"stop_reason": _stop(tool, "tool_use", "end_turn"), "stop_sequence": None}
        usage = _anthropic_usage(served.usage)
        yield _named({"type": "message_delta", "delta": stop, "usage": usage})
        yield _named({"type": "message_stop"}, is_last=True)

    def document(self, served: Served) -> Json:
        return self._message(served)

    def _message(self, served: Served) -> Json:
        return {
            "id": f"msg_live_{served.number}",
            "type": "message",
            "role": "assistant",
            "model": served.model,
            "content": [{"type": "text", "text": served.reply.text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": _anthropic_usage(served.usage),
        }

    def _block(
        self, index: int, head: Json, deltas: list[Json], *, has_middle: bool = False
    ) -> Iterator[Event]:
        yield _named({"type": "content_block_start", "index": index, "content_block": head})
        for number, delta in enumerate(deltas):
            data = {"type": "content_block_delta", "index": index, "delta": delta}
            yield _named(data, is_middle=has_middle and number == 1)
        yield _named({"type": "content_block_stop", "index": index})


class Responses(Protocol):
    """OpenAI's Responses API: items, each announced and done, then the response with its usage."""

    path = "/responses"

    def texts(self, request: Json) -> Iterator[str]:
        for item in request["input"]:
            if item.get("role") == "user":
                yield from _texts_of(item["content"])

    def events(self, served: Served) -> Iterator[Event]:
        response = self._response(served)
        started: Json = {**response, "status": "in_progress", "output": [], "usage": None}
        yield _named({"type": "response.created", "response": started})
        for index, item in enumerate(response["output"]):
            place: Json = {"output_index": index}
            begun: Json = {**item, "content": []} if item["type"] == "message" else item
            yield _named({"type": "response.output_item.added", **place, "item": begun})
            if item["type"] == "message":
                yield from self._text(item["id"], index, served.reply)
            yield _named({"type": "response.output_item.done", **place, "item": item})
        yield _named({"type": "response.completed", "response": response}, is_last=True)

    def document(self, served: Served) -> Json:
        return self._response(served)

    def _response(self, served: Served) -> Json:
        items = [_reasoning(served), _message(served)]
        if served.reply.tool is not None:
            items.append(_function_call(served, served.reply.tool))
        return {
            "id": f"resp_live_{served.number}",
            "object": "response",
            "model": served.model,
            "status": "completed",
            "output": items,
            "usage": _responses_usage(served.usage),
        }

    def _text(self, item_id: str, index: int, reply: Reply) -> Iterator[Event]:
        place: Json = {"item_id": item_id, "output_index": index, "content_index": 0}
        for number, piece in enumerate(_halves(reply.text)):
            data = {"type": "response.output_text.delta", **place, "delta": piece}
            yield _named(data, is_middle=number == 1)


class ChatCompletions(Protocol):
    """OpenAI's Chat Completions, with the `reasoning_content` that other servers add."""

    path = "/chat/completions"
    buckets = _NO_CACHE_WRITE

    def texts(self, request: Json) -> Iterator[str]:
        for message in request["messages"]:
            if message["role"] == "user":
                yield from _texts_of(message["content"])

    def events(self, served: Served) -> Iterator[Event]:
        first, second = _halves(served.reply.text)
        yield self._chunk(served, {"role": "assistant", "content": ""})
        yield self._chunk(served, {"reasoning_content": served.thinking})
        yield self._chunk(served, {"content": first})
        yield self._chunk(served, {"content": second}, is_middle=True)
        tool = served.reply.tool
        if tool is not None:
            yield self._chunk(served, {"tool_calls": [{"index": 0, **_tool_call(served, tool)}]})
        yield self._chunk(served, {}, finish=_stop(tool, "tool_calls", "stop"))
        usage: Json = {**self._head(served, "chat.completion.chunk"), "choices": []}
        usage["usage"] = _chat_usage(served.usage)
        yield Event(usage, is_last=True)
        yield Event()

    def document(self, served: Served) -> Json:
        message: Json = {"role": "assistant", "content": served.reply.text}
        message["reasoning_content"] = served.thinking
        tool = served.reply.tool
        if tool is not None:
            message["tool_calls"] = [_tool_call(served, tool)]
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": _stop(tool, "tool_calls", "stop"),
        }
        usage = _chat_usage(served.usage)
        return {**self._head(served, "chat.completion"), "choices": [choice], "usage": usage}

    def _head(self, served: Served, kind: str) -> Json:
        name = f"chatcmpl_live_{served.number}"
        return {"id": name, "object": kind, "created": 1, "model": served.model}

    def _chunk(
        self, served: Served, delta: Json, *, finish: str | None = None, is_middle: bool = False
    ) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        head = self._head(served, "chat.completion.chunk")
        return Event({**head, "choices": [choice]}, is_middle=is_middle)


class Gemini(Protocol):
    """Google's generateContent: a stream of partial answers, the last one with the usage."""

    buckets = _NO_CACHE_WRITE

    def serves(self, path: str) -> bool:
        return path.endswith((":generateContent", ":streamGenerateContent"))

    def model(self, path: str, request: Json) -> str:
        del request
        return path.rpartition("/")[2].partition(":")[0]

    def streams(self, path: str, request: Json) -> bool:
        del request
        return path.endswith(":streamGenerateContent")

    def texts(self, request: Json) -> Iterator[str]:
        for content in request["contents"]:
            if content.get("role", "user") == "user":
                yield from _texts_of(content["parts"])

    def events(self, served: Served) -> Iterator[Event]:
        first, second = _halves(served.reply.text)
        yield Event(self._part(served, {"text": served.thinking, "thought": True}))
        yield Event(self._part(served, {"text": first}))
        yield Event(self._part(served, {"text": second}), is_middle=True)
        tool = served.reply.tool
        if tool is not None:
            call = {"id": served.call_id, "name": tool.name, "args": tool.input}
            yield Event(self._part(served, {"functionCall": call}))
        yield Event(self._ended(self._part(served, {"text": ""}), served), is_last=True)

    def document(self, served: Served) -> Json:
        return self._ended(self._part(served, {"text": served.reply.text}), served)

    def _part(self, served: Served, part: Json) -> Json:
        candidate: Json = {"index": 0, "content": {"role": "model", "parts": [part]}}
        name = f"gemini_live_{served.number}"
        return {"candidates": [candidate], "modelVersion": served.model, "responseId": name}

    def _ended(self, answer: Json, served: Served) -> Json:
        answer["candidates"][0]["finishReason"] = "STOP"
        answer["usageMetadata"] = _gemini_usage(served.usage)
        return answer


PROTOCOLS: Final[tuple[Protocol, ...]] = (Messages(), Responses(), ChatCompletions(), Gemini())


def _named(data: Json, *, is_middle: bool = False, is_last: bool = False) -> Event:
    return Event(data, str(data["type"]), is_middle, is_last)


def _texts_of(content: str | list[Json] | None) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif content:
        yield from (str(part["text"]) for part in content if "text" in part)


def _halves(text: str) -> tuple[str, str]:
    middle = len(text) // 2
    return text[:middle], text[middle:]


def _stop(tool: Tool | None, with_tool: str, without: str) -> str:
    return without if tool is None else with_tool


def _tool_call(served: Served, tool: Tool) -> Json:
    call = {"name": tool.name, "arguments": json.dumps(tool.input)}
    return {"id": served.call_id, "type": "function", "function": call}


def _anthropic_usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.input,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.thinking},
    }


def _responses_usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.sent,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.thinking},
        "total_tokens": usage.sent + usage.output,
    }


def _chat_usage(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.sent,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        "completion_tokens": usage.output,
        "completion_tokens_details": {"reasoning_tokens": usage.thinking},
        "total_tokens": usage.sent + usage.output,
    }


def _gemini_usage(usage: Usage) -> Json:
    """The candidates exclude the thoughts, and the prompt includes what was cached."""
    return {
        "promptTokenCount": usage.sent,
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": usage.output - usage.thinking,
        "thoughtsTokenCount": usage.thinking,
        "totalTokenCount": usage.sent + usage.output,
    }


def _reasoning(served: Served) -> Json:
    return {
        "type": "reasoning",
        "id": f"rs_live_{served.number}",
        "summary": [{"type": "summary_text", "text": served.thinking}],
        "encrypted_content": f"c2VjcmV0{served.number}",
    }


def _message(served: Served) -> Json:
    return {
        "type": "message",
        "id": f"msg_live_{served.number}",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": served.reply.text, "annotations": []}],
    }


def _function_call(served: Served, tool: Tool) -> Json:
    return {
        "type": "function_call",
        "id": f"fc_live_{served.number}",
        "call_id": served.call_id,
        "name": tool.name,
        "arguments": json.dumps(tool.input),
    }
