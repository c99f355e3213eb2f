"""Small builders of agents' files with known content, and a client that prices them by hand.

Captures of real agents are the first choice; these are for what no capture shows: many sessions,
chosen times and prices, faults. Every line is one second after the one before.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from amux.adapters import BUILTIN
from amux.client import Client, create_client
from amux.config import Config, PriceSettings
from amux.model.usage import Tokens
from amux.testing import Capture, find_captures

Json = dict[str, Any]
SharedHome = Callable[[Capture], Path]
"""What the fixture `shared_home` gives."""

CAPTURES = find_captures(Path(__file__).parent / "captures", *BUILTIN)

START = datetime(2026, 3, 1, 10, tzinfo=UTC)
NOW = datetime(2026, 3, 31, 12, tzinfo=UTC)
SMALL, LARGE, UNKNOWN = "m-small", "m-large", "m-unknown"
PRICES = {
    SMALL: PriceSettings(
        input=1.0, output=10.0, cache_read=0.1, cache_write=1.25, cache_write_1h=2.0
    ),
    LARGE: PriceSettings(
        input=5.0, output=50.0, cache_read=0.5, cache_write=6.25, cache_write_1h=10.0
    ),
}
"""USD per million tokens: one input token of the small model is a millionth of a dollar."""


def capture_named(name: str) -> Capture:
    return next(capture for capture in CAPTURES if capture.name == name)


def open_client(home: Path, *, timezone: str = "UTC", **more: Any) -> Client:
    """A client on a home, with the prices above and a clock that stands still."""
    return create_client(
        home=home, now=NOW, config=Config(prices=PRICES, timezone=timezone), **more
    )


def uuid_of(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-{number:012x}"


def iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write_lines(path: Path, lines: Iterable[Json | bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    encoded = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"".join(line + b"\n" for line in encoded))
    return path


def write_runs(home: Path, *lines: Json) -> Path:
    """The user's run index; each line says only what matters."""
    common: Json = {"v": 1, "agent": "claude", "timestamp": iso(START), "tags": []}
    entries = [{**common, "runId": f"run-{n}", **line} for n, line in enumerate(lines)]
    return write_lines(home / ".agent-mux" / "run-index.jsonl", entries)


def run_cost(usd: float, tokens: Tokens | None = None) -> Json:
    used = tokens or Tokens()
    return {"totalUsd": usd, "inputTokens": used.input, "outputTokens": used.output}


class ClaudeSession:
    """One transcript of Claude Code, line by line."""

    def __init__(
        self,
        home: Path,
        session_id: str,
        *,
        cwd: str = "/src/app",
        at: datetime = START,
        version: str = "2.1.100",
    ) -> None:
        self.home, self.session_id, self.cwd, self.version = home, session_id, cwd, version
        self.at = at
        self.lines: list[Json | bytes] = []
        self._last: str | None = None
        self._count = 0

    @property
    def path(self) -> Path:
        folder = "".join(c if c.isascii() and c.isalnum() else "-" for c in self.cwd)
        return self.home / ".claude" / "projects" / folder / f"{self.session_id}.jsonl"

    def line(self, kind: str, **fields: Any) -> Self:
        self._count += 1
        uuid = f"{self.session_id}/{self._count}"
        envelope = {
            "type": kind,
            "uuid": uuid,
            "parentUuid": self._last,
            "sessionId": self.session_id,
            "timestamp": iso(self.at),
            "cwd": self.cwd,
            "version": self.version,
            "isSidechain": False,
        }
        self.lines.append({**envelope, **fields})
        self._last = str(fields.get("uuid", uuid))
        self.at += timedelta(seconds=1)
        return self

    def prompt(self, text: str, **fields: Any) -> Self:
        return self.line("user", message={"role": "user", "content": text}, **fields)

    def reply(
        self,
        text: str = "done",
        *,
        tokens: Tokens | None = None,
        model: str = SMALL,
        message_id: str | None = None,
        blocks: Sequence[Json] = (),
        **fields: Any,
    ) -> Self:
        used = tokens or Tokens()
        usage = {
            "input_tokens": used.input,
            "cache_read_input_tokens": used.cache_read,
            "cache_creation_input_tokens": used.cache_write,
            "output_tokens": used.output,
        }
        content = [*([{"type": "text", "text": text}] if text else []), *blocks]
        message = {
            "id": message_id or f"msg-{self.session_id}-{self._count}",
            "role": "assistant",
            "model": model,
            "content": content,
            "stop_reason": "end_turn",
            "usage": usage,
        }
        return self.line("assistant", message=message, **fields)

    def tool_call(self, call_id: str, given: Json, *, name: str = "Bash", **more: Any) -> Self:
        block = {"type": "tool_use", "id": call_id, "name": name, "input": given}
        return self.reply("", blocks=[block], **more)

    def tool_result(self, call_id: str, output: str | Sequence[Json]) -> Self:
        block = {"type": "tool_result", "tool_use_id": call_id, "content": output}
        return self.line("user", message={"role": "user", "content": [block]})

    def raw(self, line: Json | bytes) -> Self:
        self.lines.append(line)
        return self

    def write(self, path: Path | None = None) -> Path:
        return write_lines(path or self.path, self.lines)


def write_claude(
    home: Path,
    number: int,
    *,
    prompt: str = "hello",
    answer: str = "done",
    tokens: Tokens | None = None,
    model: str = SMALL,
    turns: int = 1,
    **more: Any,
) -> ClaudeSession:
    """A whole session of equal turns; its tokens are those of the last one."""
    session = ClaudeSession(home, uuid_of(number), **more)
    for turn in range(turns):
        last = turn == turns - 1
        session.prompt(prompt).reply(answer, tokens=tokens if last else None, model=model)
    session.write()
    return session


class CodexSession:
    """One rollout of Codex 0.42, line by line. Usage is cumulative, as Codex writes it."""

    def __init__(
        self,
        home: Path,
        session_id: str,
        *,
        cwd: str = "/src/app",
        at: datetime = START,
        model: str = SMALL,
        meta: Json | None = None,
    ) -> None:
        self.home, self.session_id, self.created = home, session_id, at
        self.at = at
        self.lines: list[Json] = []
        self._total = Tokens()
        own = {"id": session_id, "timestamp": iso(at), "cwd": cwd, "cli_version": "0.42.0"}
        self.line("session_meta", {**own, **(meta or {})})
        self.line("turn_context", {"cwd": cwd, "model": model})

    def line(self, kind: str, payload: Json) -> Self:
        self.lines.append({"timestamp": iso(self.at), "type": kind, "payload": payload})
        self.at += timedelta(seconds=1)
        return self

    def prompt(self, text: str) -> Self:
        content = [{"type": "input_text", "text": text}]
        self.line("response_item", {"type": "message", "role": "user", "content": content})
        return self.line("event_msg", {"type": "user_message", "message": text, "kind": "plain"})

    def reply(self, text: str = "done", *, tokens: Tokens | None = None) -> Self:
        content = [{"type": "output_text", "text": text}]
        self.line("event_msg", {"type": "agent_message", "message": text})
        self.line("response_item", {"type": "message", "role": "assistant", "content": content})
        used = tokens or Tokens(input=1)
        self._total += used
        info = {"total_token_usage": _codex(self._total), "last_token_usage": _codex(used)}
        return self.line("event_msg", {"type": "token_count", "info": info})

    @property
    def path(self) -> Path:
        day, stamp = self.created.strftime("%Y/%m/%d"), self.created.strftime("%Y-%m-%dT%H-%M-%S")
        folder = self.home / ".codex" / "sessions" / day
        return folder / f"rollout-{stamp}-{self.session_id}.jsonl"

    def write(self, path: Path | None = None) -> Path:
        return write_lines(path or self.path, self.lines)


def _codex(used: Tokens) -> Json:
    """Codex counts cached tokens as part of the input and reasoning as part of the output."""
    return {
        "input_tokens": used.input + used.cache_read,
        "cached_input_tokens": used.cache_read,
        "output_tokens": used.output,
        "reasoning_output_tokens": used.thinking or 0,
        "total_tokens": used.input + used.cache_read + used.output,
    }


def write_codex(
    home: Path,
    number: int,
    *,
    prompt: str = "hello",
    answer: str = "done",
    tokens: Tokens | None = None,
    **more: Any,
) -> CodexSession:
    session = CodexSession(home, uuid_of(number), **more)
    session.prompt(prompt).reply(answer, tokens=tokens).write()
    return session


def write_interrupted(home: Path, number: int, *, at: datetime) -> CodexSession:
    """A session whose only answer was killed while it spoke: something was spent, unknown what."""
    session = CodexSession(home, uuid_of(number), at=at).prompt("count to 200")
    session.line("event_msg", {"type": "agent_reasoning", "text": "one, two"}).write()
    return session


def write_failed(home: Path, number: int, *, at: datetime) -> CodexSession:
    """A session whose only request failed: no usage was recorded, and nothing shows a call."""
    session = CodexSession(home, uuid_of(number), at=at).prompt("always broken")
    session.line("event_msg", {"type": "error", "message": "unexpected status 500"}).write()
    return session


def age(*paths: Path, seconds: float = 60) -> None:
    """Make files look as if written a while ago: a file written this moment is not trusted."""
    past = time.time() - seconds
    for path in paths:
        os.utime(path, (past, past), follow_symlinks=False)
