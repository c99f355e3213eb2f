"""A model server on 127.0.0.1 that answers from a script, and a log of what it answered.

Real agents talk to it as they would to Anthropic (Messages) or OpenAI (Responses). What it logs is
the truth that a reader of the agents' files is measured by, so every call is told apart from every
other in each bucket: the figures of call n are multiples of 2^n, and a sum names its calls.

Nothing here knows amux. A request that fits no line of the script is refused and noted: a test that
ends with `refused` empty has seen every word the agent said.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

Json = dict[str, Any]

_LAST_EVENTS: Final = frozenset({"message_stop", "response.completed"})
_PATIENCE_S: Final = 60
"""How long a stalled answer waits to be released; longer than any test, shorter than for ever."""


@dataclass(frozen=True)
class Usage:
    """Billed tokens of one call; the buckets are disjoint, but thinking is part of the output."""

    input: int
    cache_read: int
    cache_write: int
    output: int
    thinking: int

    @classmethod
    def of_call(cls, number: int) -> Usage:
        unit = 2**number
        return cls(7 * unit, 11 * unit, 5 * unit, 3 * unit, unit)


@dataclass(frozen=True)
class Tool:
    """A tool call that the model asks for; `input` is what the tool is given."""

    name: str
    input: Json


@dataclass(frozen=True)
class Reply:
    """One answer of the model. A stalled one stops half way until it is released."""

    text: str
    tool: Tool | None = None
    stalls: bool = False


@dataclass
class Served:
    """One answer as it was given. It was billed in full only if `finished`."""

    number: int
    prompt: str
    model: str
    reply: Reply
    finished: bool = False

    @property
    def usage(self) -> Usage:
        return Usage.of_call(self.number)

    @property
    def thinking(self) -> str:
        return f"Thought {self.number}."


@dataclass
class FakeModel:
    """The script, what came of it, and the address to talk to."""

    script: dict[str, deque[Reply]]
    port: int = 0
    served: list[Served] = field(default_factory=list[Served])
    refused: list[str] = field(default_factory=list[str])
    stalled: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def calls_for(self, *prompts: str) -> list[Served]:
        """The finished calls that answered these prompts."""
        return [one for one in self.served if one.finished and one.prompt in prompts]

    def answer(self, texts: Sequence[str], model: str) -> Served | None:
        """The next answer to the newest text that the script knows; None: it knows no more."""
        with self._lock:
            for text in reversed(texts):
                for prompt, replies in self.script.items():
                    if prompt in text:
                        return self._serve(prompt, replies, model)
        return None

    def _serve(self, prompt: str, replies: deque[Reply], model: str) -> Served | None:
        if not replies:
            return None
        served = Served(len(self.served), prompt, model, replies.popleft())
        self.served.append(served)
        return served

    def hold(self) -> bool:
        """Wait in the middle of an answer; whether it may go on."""
        self.stalled.set()
        return self.released.wait(_PATIENCE_S)


@contextmanager
def fake_model(script: Mapping[str, Sequence[Reply]]) -> Generator[FakeModel]:
    """A running server; it is gone when the block ends, and stalled answers with it."""
    model = FakeModel({prompt: deque(replies) for prompt, replies in script.items()})

    class Handler(_Handler):
        fake = model

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    model.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield model
    finally:
        model.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    fake: FakeModel
    protocol_version = "HTTP/1.0"  # the end of an answer is the end of the connection

    def log_message(self, format: str, *args: object) -> None:
        """The log is `FakeModel.served`, not stderr."""

    def do_HEAD(self) -> None:
        self._send_json({})

    def do_GET(self) -> None:
        self._send_json({"object": "list", "data": [], "models": []})

    def do_CONNECT(self) -> None:
        # The agents are told to use this server as their proxy: what they try to reach lands here.
        self._refuse(f"CONNECT {self.path}")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        protocol = _PROTOCOLS.get(path)
        if protocol is None:
            self._refuse(f"POST {path}")
            return
        request: Json = json.loads(body)
        served = self.fake.answer(list(protocol.texts(request)), str(request.get("model")))
        if served is None:
            self._refuse(f"POST {path} without a line in the script: {body[-300:]!r}")
            return
        self._stream(served, protocol.events(served))

    def _stream(self, served: Served, events: Iterator[Json | None]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        try:
            for event in events:
                if event is None:
                    if not self.fake.hold():
                        return
                    continue
                # Said before it is sent: whoever reads the last event may be quicker than this.
                served.finished = event["type"] in _LAST_EVENTS
                data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
                self.wfile.write(data.encode())
                self.wfile.flush()
        except ConnectionError:
            served.finished = False  # the agent was killed

    def _refuse(self, what: str) -> None:
        self.fake.refused.append(what)
        self._send_json({"type": "error", "error": {"type": "not_found", "message": what}}, 404)

    def _send_json(self, content: Json, status: int = 200) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


class _Messages:
    """Anthropic's Messages API: one stream of content blocks, the final usage at its end."""

    def texts(self, request: Json) -> Iterator[str]:
        for message in request["messages"]:
            if message["role"] == "user":
                yield from _texts_of(message["content"])

    def events(self, served: Served) -> Iterator[Json | None]:
        """The events of one answer; None is where a stalled answer waits."""
        reply, usage = served.reply, served.usage
        message: Json = {
            "id": f"msg_live_{served.number}",
            "type": "message",
            "role": "assistant",
            "model": served.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**_anthropic_usage(usage), "output_tokens": 1},
        }
        yield {"type": "message_start", "message": message}
        yield from self._block(
            0, {"type": "thinking", "thinking": "", "signature": ""}, _thoughts(served.thinking)
        )
        yield from self._block(
            1, {"type": "text", "text": ""}, _text_deltas(reply.text), stalls=reply.stalls
        )
        if reply.tool is not None:
            head: Json = {"type": "tool_use", "id": f"toolu_live_{served.number}", "input": {}}
            partial = {"type": "input_json_delta", "partial_json": json.dumps(reply.tool.input)}
            yield from self._block(2, {**head, "name": reply.tool.name}, [partial])
        stop = "end_turn" if reply.tool is None else "tool_use"
        yield {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": _anthropic_usage(usage),
        }
        yield {"type": "message_stop"}

    def _block(
        self, index: int, head: Json, deltas: Sequence[Json], *, stalls: bool = False
    ) -> Iterator[Json | None]:
        yield {"type": "content_block_start", "index": index, "content_block": head}
        for number, delta in enumerate(deltas):
            if stalls and number == 1:
                yield None
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}


class _Responses:
    """OpenAI's Responses API: items, each announced and done, then the response with its usage."""

    def texts(self, request: Json) -> Iterator[str]:
        for item in request["input"]:
            if item.get("role") == "user":
                yield from _texts_of(item["content"])

    def events(self, served: Served) -> Iterator[Json | None]:
        """The events of one answer; None is where a stalled answer waits."""
        reply, number = served.reply, served.number
        response: Json = {"id": f"resp_live_{number}", "object": "response", "model": served.model}
        yield {"type": "response.created", "response": {**response, "status": "in_progress"}}
        items = [_reasoning(number, served.thinking), _message(number, reply.text)]
        if reply.tool is not None:
            items.append(_function_call(number, reply.tool))
        for index, item in enumerate(items):
            yield {"type": "response.output_item.added", "output_index": index, "item": item}
            if item["type"] == "message":
                yield from self._text(item["id"], index, reply)
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
        usage = _openai_usage(served.usage)
        done = {**response, "status": "completed", "output": items, "usage": usage}
        yield {"type": "response.completed", "response": done}

    def _text(self, item_id: str, index: int, reply: Reply) -> Iterator[Json | None]:
        for number, piece in enumerate(_halves(reply.text)):
            if reply.stalls and number == 1:
                yield None
            yield {
                "type": "response.output_text.delta",
                "item_id": item_id,
                "output_index": index,
                "content_index": 0,
                "delta": piece,
            }


_PROTOCOLS: Final[dict[str, _Messages | _Responses]] = {
    "/v1/messages": _Messages(),
    "/v1/responses": _Responses(),
}


def _texts_of(content: str | list[Json]) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    else:
        yield from (str(part["text"]) for part in content if "text" in part)


def _halves(text: str) -> tuple[str, str]:
    middle = len(text) // 2
    return text[:middle], text[middle:]


def _text_deltas(text: str) -> list[Json]:
    return [{"type": "text_delta", "text": piece} for piece in _halves(text)]


def _thoughts(text: str) -> list[Json]:
    return [
        {"type": "thinking_delta", "thinking": text},
        {"type": "signature_delta", "signature": "c2lnbmF0dXJl"},
    ]


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


def _openai_usage(usage: Usage) -> Json:
    sent = usage.input + usage.cache_read + usage.cache_write
    return {
        "input_tokens": sent,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.thinking},
        "total_tokens": sent + usage.output,
    }


def _reasoning(number: int, text: str) -> Json:
    summary = [{"type": "summary_text", "text": text}]
    return {
        "type": "reasoning",
        "id": f"rs_live_{number}",
        "summary": summary,
        "encrypted_content": f"c2VjcmV0{number}",
    }


def _message(number: int, text: str) -> Json:
    return {
        "type": "message",
        "id": f"msg_live_{number}",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def _function_call(number: int, tool: Tool) -> Json:
    return {
        "type": "function_call",
        "id": f"fc_live_{number}",
        "call_id": f"call_live_{number}",
        "name": tool.name,
        "arguments": json.dumps(tool.input),
    }
