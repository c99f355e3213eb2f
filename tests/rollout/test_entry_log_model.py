"""Any sequence of appends, compactions, forks, kills and foreign lines reads back as it should.

The oracle is a list in memory. After every step the log is also read by the adapter of the agent
that the format comes from, which shares no code with the writer but the decoding of a line.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from drawn import drawn
from entry_samples import Json
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from amux import EntryLog, list_entry_logs, parse_line, parse_messages
from amux.adapters._base import SourceRef
from amux.adapters.agent import ADAPTER
from amux.model.message import SessionMessage
from amux.model.problems import Problem
from amux.rollout.entries import encode_line
from amux.testing.reading import read_source

TEXT = st.text(max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
).filter(lambda value: "inf" not in repr(value).lower())


@st.composite
def blocks(draw: st.DrawFn) -> list[Json]:
    """The content of a message."""

    def block() -> Json:
        text = draw(TEXT)
        match draw(st.integers(0, 2)):
            case 0:
                return {"type": "text", "text": text}
            case 1:
                return {"type": "thinking", "thinking": text}
            case _:
                arguments = {"x": draw(VALUES)}
                return {"type": "tool_call", "id": text, "name": "t", "arguments": arguments}

    return [block() for _ in range(draw(st.integers(0, 3)))]


@st.composite
def messages(draw: st.DrawFn) -> Json:
    """A message of a user, an assistant or a tool."""
    content, count = draw(blocks()), draw(st.integers(0, 9))
    match draw(st.integers(0, 2)):
        case 0:
            return {"role": "user", "content": content}
        case 1:
            usage = {"input": count, "output": 1, "total_tokens": count + 1}
            made = {"model": "m", "provider": "p", "usage": usage, "stop_reason": "stop"}
            return {"role": "assistant", "content": content, **made}
        case _:
            return {"role": "tool_result", "tool_call_id": "c", "content": content}


GARBAGE = st.binary(max_size=20).filter(lambda raw: b"\n" not in raw)


@dataclass
class Expected:
    """What a log must hold: its messages in order, and the compaction that counts."""

    messages: list[tuple[str, Json]] = field(default_factory=list[tuple[str, Json]])
    summary: str | None = None
    kept: int = 0

    def conversation(self) -> list[Json]:
        return [message for _, message in self.messages[self.kept :]]

    def fork(self, keep: int) -> Expected:
        start = max(0, len(self.messages) - keep)
        while 0 < start < len(self.messages) and self.role(start) == "tool_result":
            start -= 1
        while start < len(self.messages) and self.role(start) == "tool_result":
            start += 1
        copied = self.messages[start:]
        if self.summary is None or self.kept < start:
            return Expected([*copied])
        return Expected([*copied], self.summary, self.kept - start)

    def role(self, position: int) -> str:
        return self.messages[position][1]["role"]


class Logs(RuleBasedStateMachine):
    """One log that several objects write to, and its forks."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(prefix="amux-logs-")
        self.expected = Expected()
        self.before = b""
        self.torn = False

    def teardown(self) -> None:
        self.folder.cleanup()

    @property
    def path(self) -> Path:
        return Path(self.folder.name) / "agent" / "sessions"

    @initialize(cwd=TEXT)
    def create(self, cwd: str) -> None:
        self.log = EntryLog.create(self.path, cwd, fsync="never")
        self.cwd = cwd if cwd.strip() else ""

    @rule(message=messages(), by_another=st.booleans())
    def append(self, message: Json, by_another: bool) -> None:
        log = EntryLog.load(self.path, self.log.id, fsync="never") if by_another else self.log
        id = log.append_message(message)
        self.expected.messages.append((id, message))
        self.torn = False

    @rule(data=st.data(), summary=TEXT)
    def compact(self, data: st.DataObject, summary: str) -> None:
        position = data.draw(st.integers(0, len(self.expected.messages)))
        ids = [id for id, _ in self.expected.messages] + [""]
        self.log.append_compaction(summary, ids[position], 7)
        self.expected.summary, self.expected.kept = summary, position
        self.torn = False

    @rule(summary=TEXT)
    def compact_by_another_program(self, summary: str) -> None:
        entry = {"type": "compaction", "id": "zz", "summary": summary, "first_kept_entry_id": "?"}
        self._write(json.dumps(entry).encode() + b"\n", ends_torn=False)
        self.expected.summary, self.expected.kept = summary, len(self.expected.messages)

    @rule(cut=st.integers(1, 60))
    def be_killed_while_writing(self, cut: int) -> None:
        line = b'{"type":"message","id":"torn","role":"user","message":{"role":"user","cont'
        self._write(line[:cut], ends_torn=True)

    @rule(garbage=GARBAGE)
    def get_garbage(self, garbage: bytes) -> None:
        if isinstance(parse_line(garbage)[1].get("type"), str):
            return
        self._write(garbage + b"\n", ends_torn=False)

    @rule()
    def reload(self) -> None:
        self.log = EntryLog.load(self.path, self.log.id[:8], fsync="never")

    @rule(keep=st.integers(0, 25), summary=TEXT)
    def fork(self, keep: int, summary: str) -> None:
        parent, before = self.log, self.log.file_path.read_bytes()
        self.log = parent.fork(self.path, keep, summary)
        assert parent.file_path.read_bytes() == before
        self.expected = self.expected.fork(keep)
        self.before, self.torn = b"", False

    def _write(self, data: bytes, *, ends_torn: bool) -> None:
        """Append as another program does, on a fresh line."""
        with self.log.file_path.open("ab") as stream:
            stream.write(b"\n" + data if self.torn else data)
        self.torn = ends_torn

    @invariant()
    def old_bytes_stay(self) -> None:
        data = self.log.file_path.read_bytes()
        assert data.startswith(self.before)
        self.before = data

    @invariant()
    def the_conversation_is_the_expected_one(self) -> None:
        summary, messages = self._split(self.log.messages())
        assert messages == self.expected.conversation()
        assert (summary is None) == (self.expected.summary is None)
        if summary is not None:
            said = self.expected.summary or ""
            assert f"<summary>\n{said if said.strip() else ''}\n</summary>" in summary
        assert parse_messages(self.before, problems=[]) == self.log.messages()

    def _split(self, found: list[Json]) -> tuple[str | None, list[Json]]:
        """The summary and the messages, without the times that the log has added."""
        messages = [{k: v for k, v in each.items() if k != "timestamp"} for each in found]
        if self.expected.summary is None:
            return None, messages
        return messages[0]["content"][0]["text"], messages[1:]

    @invariant()
    def own_lines_are_linked_unique_and_written_back_equal(self) -> None:
        lines = [line for line in self.before.split(b"\n") if parse_line(line)[1].get("id")]
        entries = [parse_line(line) for line in lines]
        assert entries[0] == ("session", {**entries[0][1], "id": self.log.id})
        last = ""
        ids: set[str] = set()
        for line, (kind, fields) in list(zip(lines, entries, strict=True))[1:]:
            if fields["id"] != "zz":
                assert fields["id"] not in ids
                assert kind == "branch" or fields["parent_id"] == last
                assert encode_line(fields) == line + b"\n"
            last = fields["id"]
            ids.add(last)

    @invariant()
    def the_list_shows_it(self) -> None:
        problems: list[Problem] = []
        infos = {info.id: info for info in list_entry_logs(self.path, problems=problems)}
        assert problems == []
        info = infos[self.log.id]
        assert (info.message_count, info.cwd) == (len(self.expected.messages), self.cwd)

    @invariant()
    def the_adapter_reads_it_equally(self) -> None:
        source = SourceRef(agent="agent", path=self.log.file_path, root=self.path.parent)
        context, problems = ADAPTER.context(source)
        assert [_said(each) for each in context] == [_text(each) for each in self.log.messages()]
        assert [each.role for each in context] == [
            {"tool_result": "tool"}.get(each["role"], each["role"]) for each in self.log.messages()
        ]
        reading = read_source(ADAPTER, source)
        (facts,) = reading.facts
        assert facts.session_id == self.log.id
        shown = [each for each in reading.messages if not each.synthetic]
        assert [each.id for each in shown] == [id for id, _ in self.expected.messages]
        codes = [(each.code, each.line) for each in problems]
        assert codes == [(each.code, each.line) for each in sorted(self.log.problems, key=_line)]


def _line(problem: Problem) -> int:
    return problem.line or 0


def _said(message: SessionMessage) -> str:
    return message.content


def _text(message: dict[str, Any]) -> str:
    texts = (block["text"] for block in message["content"] if block["type"] == "text")
    return "\n".join(text for text in texts if text.strip())


TestLogs = Logs.TestCase
TestLogs.settings = drawn(60, stateful_step_count=25)
