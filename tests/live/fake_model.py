"""A model server on 127.0.0.1 that answers from a script, and a log of what it answered.

Real agents talk to it as they would to Anthropic (Messages), OpenAI (Responses, Chat Completions)
or Google (generateContent). What it logs is the truth that a reader of the agents' files is
measured by, so every call is told apart from every other in each bucket: the figures of call n are
multiples of 2^n, and a sum names its calls.

A script gives the replies to each prompt, in order. A reply may wait, fail, be cut, or stop half
way until the test releases it. A request that offers the model no tools is a helper call, for a
title or a choice of model: it is answered with a word, billed with nothing, and needs no line in
the script.

Nothing here knows amux. A request that fits no line of the script is refused and noted: a test that
ends with `refused` empty has seen every word the agent said.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from model_protocols import PROTOCOLS, Event, Protocol, Reply, Served

Json = dict[str, Any]

_PATIENCE_S: Final = 60
"""How long a stalled answer waits to be released; longer than any test, shorter than for ever."""
HELPER_TEXT: Final = "Helper."
_ERRORS: Final = {429: "rate_limit_error", 500: "api_error", 529: "overloaded_error"}


@dataclass
class FakeModel:
    """The script, what came of it, and the address to talk to.

    `side_paths` are the beginnings of paths that are no model: they are answered with `{}`.
    """

    script: dict[str, deque[Reply]]
    side_paths: tuple[str, ...] = ()
    port: int = 0
    served: list[Served] = field(default_factory=list[Served])
    helpers: list[Served] = field(default_factory=list[Served])
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

    def answer(self, protocol: Protocol, request: Json, model: str) -> Served | None:
        """The next answer to the newest text that the script knows; None: it knows no more."""
        texts = tuple(protocol.texts(request))
        if not protocol.has_tools(request):
            helper = Served(
                0, "", model, Reply(HELPER_TEXT), protocol.buckets, texts, is_helper=True
            )
            self.helpers.append(helper)
            return helper
        with self._lock:
            prompt = self._newest_prompt(texts)
            if prompt is None or not self.script[prompt]:
                return None
            number, reply = len(self.served), self.script[prompt].popleft()
            served = Served(number, prompt, model, reply, protocol.buckets, texts)
            self.served.append(served)
            return served

    def _newest_prompt(self, texts: Sequence[str]) -> str | None:
        """The last prompt of the last text with any: some agents join what was not answered."""
        for text in reversed(texts):
            known = [prompt for prompt in self.script if prompt in text]
            if known:
                return max(known, key=text.rindex)
        return None

    def hold(self) -> bool:
        """Wait in the middle of an answer; whether it may go on."""
        self.stalled.set()
        return self.released.wait(_PATIENCE_S)


@contextmanager
def fake_model(
    script: Mapping[str, Sequence[Reply]], *, side_paths: tuple[str, ...] = ()
) -> Generator[FakeModel]:
    """A running server; it is gone when the block ends, and stalled answers with it."""
    replies = {prompt: deque(answers) for prompt, answers in script.items()}
    model = FakeModel(replies, side_paths)

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

    def handle(self) -> None:
        with suppress(ConnectionError):  # the agent was killed, or wants no answer
            super().handle()

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
        if path.endswith(":countTokens"):
            self._send_json({"totalTokens": 1})
            return
        if path.startswith(self.fake.side_paths):
            self._send_json({})
            return
        protocol = next((one for one in PROTOCOLS if one.serves(path)), None)
        if protocol is None:
            self._refuse(f"POST {path}")
            return
        request: Json = json.loads(body)
        model = protocol.model(path, request)
        served = self.fake.answer(protocol, request, model)
        if served is None:
            self._refuse(f"POST {path} without a line in the script: {body[-300:]!r}")
            return
        reply = served.reply
        if reply.delay:
            threading.Event().wait(reply.delay)
        if reply.status != 200:
            self._send_json(_error(reply.status), reply.status)
        elif protocol.streams(path, request):
            self._stream(served, protocol.events(served))
        else:
            served.finished = True
            self._send_json(protocol.document(served))

    def _stream(self, served: Served, events: Iterable[Event]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        try:
            for event in events:
                if event.is_middle and served.reply.cut:
                    return
                if event.is_middle and served.reply.stalls and not self.fake.hold():
                    return
                # Said before it is sent: whoever reads the last event may be quicker than this.
                served.finished = served.finished or event.is_last
                self.wfile.write(event.encode())
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


def _error(status: int) -> Json:
    """An error in the form that all four protocols understand."""
    kind = _ERRORS.get(status, "api_error")
    detail = {"type": kind, "code": status, "message": f"scripted failure {status}", "status": kind}
    return {"type": "error", "error": detail}
