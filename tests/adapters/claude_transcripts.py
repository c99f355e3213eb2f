"""Hand-built Claude Code transcripts, and the items that an adapter reads from them."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from amux.adapters._base import Head, Item, Want
from amux.adapters.claude import ADAPTER
from amux.model.facts import Facts
from amux.model.message import SessionMessage
from amux.model.problems import Problem
from amux.model.trace import LineKind, count_messages
from amux.model.usage import Call, Tokens

SESSION = "11111111-2222-4333-8444-555555555555"
FOLDER = "-home-dev-src-x"

Json = dict[str, Any]


class Read:
    """One session as an adapter returned it, by type of item."""

    def __init__(self, head: str | None = None) -> None:
        self.head = head
        self.messages: list[SessionMessage] = []
        self.calls: list[Call] = []
        self.problems: list[Problem] = []
        self.facts = Facts(session_id="")

    def texts(self, role: str, *, synthetic: bool = False) -> list[str]:
        return [m.content for m in self.messages if m.role == role and m.synthetic is synthetic]

    @property
    def tool_calls(self) -> list[tuple[str, bool | None]]:
        return [
            (call.tool_name, None if call.is_error is None else not call.is_error)
            for message in self.messages
            for call in message.tool_calls
        ]

    @property
    def tokens(self) -> Json:
        total = sum((call.tokens for call in self.facts.calls), Tokens())
        return {
            "input": total.input,
            "cache_read": total.cache_read,
            "cache_write": total.cache_write,
            "output": total.output,
            "thinking": total.thinking or 0,
        }

    @property
    def gaps(self) -> set[str]:
        return {*self.facts.gaps, *(gap for call in self.facts.calls for gap in call.gaps)}


def sessions_of(items: Iterator[Item]) -> list[Read]:
    found: list[Read] = []
    current = Read()
    for item in items:
        match item:
            case Head():
                current.head = item.session_id
            case SessionMessage():
                current.messages.append(item)
            case Call():
                current.calls.append(item)
            case Problem():
                current.problems.append(item)
            case Facts():
                current.facts = item
                found.append(current)
                current = Read()
    return found


def read_path(path: Path, *, want: Want = "all", only: str | None = None) -> list[Read]:
    root = next(parent for parent in path.parents if parent.name == "projects")
    sources = [source for source in ADAPTER.discover(root) if source.path == path]
    assert len(sources) == 1
    return sessions_of(ADAPTER.read(sources[0], want=want, only=only))


MARKS = {
    ("user", False): LineKind.PROMPT,
    ("user", True): LineKind.INJECTED,
    ("system", True): LineKind.INJECTED,
    ("assistant", False): LineKind.REPLY,
    ("assistant", True): LineKind.NOTICE,
    ("tool", False): LineKind.TOOL,
}


def check_counts(read: Read) -> None:
    marks = bytes(MARKS[message.role, message.synthetic] for message in read.messages)
    begun = bytes(mark for mark in read.facts.trace.kinds if mark != LineKind.LINE)
    assert marks == begun
    assert count_messages(read.facts.trace.kinds) == len(read.messages)


def identity_keys(identity: bytes) -> list[int]:
    return list(array("q", identity))


class Transcript:
    """Builds one file of a project folder, line by line, as the named version writes it."""

    def __init__(self, tmp_path: Path, *, name: str = SESSION, version: str = "2.1.100") -> None:
        self.path = tmp_path / "projects" / FOLDER / f"{name}.jsonl"
        self.version = version
        self.session = name.removeprefix("agent-")
        self.lines: list[bytes] = []
        self.count = 0
        self.last: str | None = None

    def raw(self, line: Json | bytes) -> Transcript:
        self.lines.append(line if isinstance(line, bytes) else json.dumps(line).encode())
        return self

    def envelope(self, kind: str, **more: Any) -> str:
        self.count += 1
        uuid = f"uuid-{self.count}"
        line = {
            "type": kind,
            "uuid": uuid,
            "parentUuid": self.last,
            "sessionId": self.session,
            "timestamp": f"2026-01-02T03:04:{self.count:02d}.000Z",
            "cwd": "/home/dev/src/x",
            "version": self.version,
            "isSidechain": False,
        }
        self.raw({key: value for key, value in {**line, **more}.items() if value is not ...})
        self.last = uuid
        return uuid

    def user(self, content: str | list[Json], **more: Any) -> str:
        return self.envelope("user", message={"role": "user", "content": content}, **more)

    def result(self, call: str, content: Any = "done", **more: Any) -> str:
        return self.user([{"type": "tool_result", "tool_use_id": call, "content": content, **more}])

    def assistant(
        self,
        *content: Json,
        message_id: str | None = "msg_1",
        output: int = 100,
        stop: Any = "end_turn",
        usage: Json | None = None,
        **more: Any,
    ) -> str:
        message = {
            "id": message_id,
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": list(content),
            "stop_reason": stop,
            "usage": {"input_tokens": 10, "output_tokens": output, **(usage or {})},
            **more.pop("message", {}),
        }
        fields = {key: value for key, value in message.items() if value is not ...}
        return self.envelope("assistant", message=fields, **more)

    def read(
        self, *, want: Want = "all", only: str | None = None, tail: bytes = b"\n"
    ) -> list[Read]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(b"\n".join(self.lines) + tail)
        return read_path(self.path, want=want, only=only)

    def session_read(self) -> Read:
        """Return the session of the file, after the checks that apply to every file."""
        full, bare = self.read(), self.read(want="facts")
        assert [read.facts for read in full] == [read.facts for read in bare]
        for read in full:
            if read.head is not None:
                check_counts(read)
        return full[0]


def text(value: str) -> Json:
    return {"type": "text", "text": value}


def tool(call: str, name: str = "Bash") -> Json:
    return {"type": "tool_use", "id": call, "name": name, "input": {"command": "ls"}}
