"""One process of an agent that reads prompts and writes answers as lines of JSON.

A prompt is a line on its stdin. Lines on its stdout follow until one that ends the answer. Lines
are bounded; one that is no JSON is ignored.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final, NamedTuple, cast

import msgspec

from amux.errors import AmuxError, ErrorCode
from amux.managed.processes import end_processes

LARGEST_LINE: Final = 16 * 2**20
GRACE_SECONDS: Final = 5.0
_STDERR_KEPT: Final = 4096
_ENDS: Final = frozenset({"completion", "result"})


class StreamAnswer(NamedTuple):
    """The answer to one prompt; `error` is None if there is one."""

    text: str
    session_id: str | None = None
    error: str | None = None


class StreamProcess:
    """A running agent. Only one thread may ask; any thread may abort."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        cwd: str | None,
        env: Mapping[str, str],
        session_id: str,
        timeout: float,
    ) -> None:
        self._session_id = session_id
        self._timeout = timeout
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        self._errors = bytearray()
        self._writer: Thread | None = None
        try:
            self._process = subprocess.Popen(  # noqa: S603 - no shell, a program of the PATH
                words,
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=sys.platform != "win32",
            )
        except OSError as error:
            raise AmuxError(
                f"`{words[0]}` cannot be started ({error.strerror})", code=ErrorCode.SPAWN_ERROR
            ) from error
        self._readers = [
            Thread(target=self._read_lines, name="amux-agent-stdout", daemon=True),
            Thread(target=self._read_errors, name="amux-agent-stderr", daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def ask(self, prompt: str) -> StreamAnswer:
        """Send a prompt and return the answer.

        Raises:
            AmuxError: The agent is silent for the timeout (INACTIVITY_TIMEOUT) or was killed
                (AGENT_CRASH).
        """
        line = msgspec.json.encode({"role": "user", "content": prompt}) + b"\n"
        self._writer = Thread(
            target=self._write, args=(line,), name="amux-agent-stdin", daemon=True
        )
        self._writer.start()  # the agent may never read it, which the timeout below notices
        texts: list[str] = []
        session_id: str | None = None
        while True:
            event = self._next_event()
            if event is None:
                return self._ended("\n".join(texts), session_id)
            session_id = _text(event, "session_id", "sessionId") or session_id
            kind = event.get("type")
            if kind in _ENDS:
                final = _text(event, "finalText", "result", "text")
                error = (final or "it reported an error") if event.get("is_error") else None
                return StreamAnswer(final or "\n".join(texts), session_id, error)
            if kind == "error":
                return StreamAnswer("", session_id, _text(event, "message", "error") or "error")
            if kind == "message" and event.get("role") == "assistant":
                texts.append(_text(event, "text") or "")

    def abort(self) -> None:
        """Kill the process and its children."""
        self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))

    def close(self) -> None:
        """End the process: close its stdin, then send SIGTERM, then SIGKILL to its group."""
        assert self._process.stdin is not None  # noqa: S101 - opened as a pipe
        if self._writer is not None and self._writer.is_alive():
            self.abort()  # it does not read its prompt
            self._writer.join(GRACE_SECONDS)
        with suppress(OSError):
            self._process.stdin.close()
        for number in (None, signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
            if number is not None:
                self._signal(number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_SECONDS)
                break
        end_processes(self._session_id, grace=GRACE_SECONDS)
        for reader in self._readers:
            reader.join(GRACE_SECONDS)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._process.terminate()
            else:
                os.killpg(self._process.pid, number)

    def _next_event(self) -> dict[str, Any] | None:
        """Return the next object; None at the end of the output."""
        while True:
            try:
                line = self._lines.get(timeout=self._timeout)
            except Empty:
                self.abort()
                raise AmuxError(
                    f"the agent gave no sign of life for {self._timeout:g} seconds",
                    code=ErrorCode.INACTIVITY_TIMEOUT,
                    hint="`amux managed recover` shows how to go on",
                ) from None
            if not line:
                return None
            try:
                event = msgspec.json.decode(line)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                continue
            if isinstance(event, dict):
                return cast("dict[str, Any]", event)

    def _write(self, line: bytes) -> None:
        stream = self._process.stdin
        assert stream is not None  # noqa: S101 - opened as a pipe
        with suppress(OSError, ValueError):  # the agent has ended, or was given up
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(stream.fileno(), rest) :]

    def _ended(self, text: str, session_id: str | None) -> StreamAnswer:
        """Return the answer of a process that ended; raise AGENT_CRASH if it was killed."""
        code = self._process.wait()
        for reader in self._readers:
            reader.join(GRACE_SECONDS)
        said = self._errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
        if code < 0:
            raise AmuxError(
                f"the agent was killed by signal {-code}",
                code=ErrorCode.AGENT_CRASH,
                hint="`amux managed recover` shows how to go on",
            )
        return StreamAnswer(text, session_id, said or f"it ended with exit code {code}")

    def _read_lines(self) -> None:
        stream = self._process.stdout
        assert stream is not None  # noqa: S101 - opened as a pipe
        while line := stream.readline(LARGEST_LINE):
            if line.startswith(b"{"):  # anything else is no event, and may be endless
                self._lines.put(line)
        self._lines.put(b"")

    def _read_errors(self) -> None:
        stream = self._process.stderr
        assert stream is not None  # noqa: S101 - opened as a pipe
        while part := os.read(stream.fileno(), _STDERR_KEPT):
            self._errors += part
            del self._errors[:-_STDERR_KEPT]


def _text(event: Mapping[str, Any], *names: str) -> str | None:
    for name in names:
        found = event.get(name)
        if isinstance(found, str) and found:
            return found
    return None
