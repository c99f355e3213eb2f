"""The lines of a transcript as far as they bear on cost: most results of tools are left out.

Two thirds of a transcript are what tools gave back. A line that hands over a result bears on cost
in one way: until an answer begins, a call may be under way. So such lines are held back as they
are and forgotten when an answer begins. If something else comes that may depend on them, or nothing
more, they are read in their place.

They are told without being decoded: a line that begins and ends like one that was decoded is of
the same kind, session and folder.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

from amux.adapters._claude.lines import LineReader
from amux.adapters._claude.records import Entry, Line, Message, content_blocks, is_notice, text_of
from amux.model.problems import Problem

_BEGIN: Final = b'{"parentUuid":"'
_HEAD_AT: Final = len(_BEGIN) + 36  # behind the id
_RESULT: Final = b'"tool_use_id":"'
_HANDS_OVER: Final = (
    b'"message":{"role":"user","content":[{"tool_use_id":"',
    b'"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"',
)
_ENVELOPE: Final = b',"userType":"'  # where newer versions begin to repeat session and folder
_SESSION: Final = b'"sessionId":"'
_DEPEND_ON_RESULTS: Final = frozenset({"user", "assistant", "cost-state"})


class Result(NamedTuple):
    """A line that hands over a result, as it is."""

    number: int
    raw: memoryview


Held = list[Entry | Result]
"""Lines since the last answer: records as they were decoded, and results."""


class Likeness(NamedTuple):
    """What lines have in common that hand over results of one session."""

    head: bytes = b"\n"  # behind the first id; no line has a line end
    tail: bytes = b"\n"


class CostLineReader(LineReader):
    """Reads as `LineReader` does, but leaves out results that an answer has followed."""

    _like = Likeness()
    _answer: str | None = None  # the id of the message the last line belongs to that has one

    def _entries_of_chunk(self, chunk: bytes, start: int) -> Generator[Entry | Problem, None, int]:
        """The lines that end in a chunk; then the place behind them."""
        view, number = memoryview(chunk), self.number
        held: Held = []
        self._answer = None
        while (end := chunk.find(b"\n", start)) >= 0:
            number += 1
            raw = view[start:end]
            head, tail = self._like
            if (
                chunk.startswith(head, start + _HEAD_AT)
                and chunk.startswith(_BEGIN, start)
                and chunk.endswith(tail, start + _HEAD_AT + len(head), end)
            ):
                held.append(Result(number, raw))
            elif (entry := self._decoded(number, raw)) is None:
                held.append(Result(number, raw))
                yield from self._read(held)
            elif held and self._can_wait(entry.line):
                held.append(entry)
            else:
                if held:
                    yield from self._before(entry.line, held)
                yield entry
                self._see(entry)
            start = end + 1
        yield from self._read(held)
        self.number = number
        return start

    def _before(self, line: Line, held: Held) -> Iterator[Entry | Problem]:
        """What comes of the lines held back, now that this one follows."""
        named = _message_id(line)
        begins_answer = self._answer is not None and named is not None and named != self._answer
        if begins_answer and not is_notice(line) and not self._is_aside(line):
            yield from (each for each in held if isinstance(each, Entry))
            held.clear()
        else:
            yield from self._read(held)

    def _read(self, held: Held) -> Iterator[Entry | Problem]:
        for each in held:
            if isinstance(each, Entry):
                yield each
            elif (entry := self._decoded(each.number, each.raw)) is not None:
                yield entry
            else:
                yield from self._entry(each.raw, each.number)
        held.clear()

    def _see(self, entry: Entry) -> None:
        """Remember whose answer it is, or how it looks if it hands over a result."""
        line = entry.line
        if line.type == "assistant":
            self._answer = None if self._is_aside(line) else _message_id(line)
        elif line.type == "user" and self._is_usual(entry):
            self._like = likeness_of(bytes(entry.raw)) or self._like

    def _can_wait(self, line: Line) -> bool:
        """Whether a line may be taken after results that came before it."""
        return line.type not in _DEPEND_ON_RESULTS and not self._is_aside(line)

    def _is_aside(self, line: Line) -> bool:
        """Whether a line belongs to a sidechain in the file of a session."""
        return line.is_sidechain is True and self._own_id is not None

    def _is_usual(self, entry: Entry) -> bool:
        """Whether nothing new can be learnt of the session from lines like this one."""
        line = entry.line
        names_all = text_of(line.cwd) and text_of(line.session_id) and entry.at is not None
        blocks = content_blocks(line) if names_all and not entry.copied else []
        return bool(blocks) and blocks[0].type == "tool_result" and not self._is_aside(line)


def likeness_of(raw: bytes) -> Likeness | None:
    """How a line that hands over a result looks; None: not so that others can be told by it."""
    head = raw[_HEAD_AT : raw.find(_RESULT) + len(_RESULT)]
    envelope = raw.rfind(_ENVELOPE)
    tail = raw[envelope:] if envelope >= _HEAD_AT + len(head) else b""
    is_known = raw.startswith(_BEGIN) and head.startswith(b'"') and head.endswith(_HANDS_OVER)
    # Nothing is nested before the message, or behind it.
    is_flat = head.count(b"{") == 2 and tail.count(b"{") == 0 and tail.count(b"}") == bool(tail)  # noqa: PLR2004 - the message and its first block
    if is_known and is_flat and (_SESSION in head or _SESSION in tail):
        return Likeness(head, tail)
    return None


def _message_id(line: Line) -> str | None:
    """The id of the message that an answer belongs to."""
    message = line.message
    return text_of(message.id) if isinstance(message, Message) else None
