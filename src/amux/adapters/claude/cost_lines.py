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

from amux.adapters.claude.conversation import Conversation
from amux.adapters.claude.lines import LineReader
from amux.adapters.claude.records import Entry, Line, Message, content_blocks, is_notice, text_of
from amux.adapters.claude.usual_answers import UsualAnswers
from amux.model.problems import Problem

_BEGIN: Final = b'{"parentUuid":"'
_HEAD_AT: Final = len(_BEGIN) + 36  # behind the id
_RESULT: Final = b'"tool_use_id":"'
_HANDS_OVER: Final = (
    b'"message":{"role":"user","content":[{"tool_use_id":"',
    b'"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"',
)
_ENVELOPE: Final = b',"userType":"'  # where newer versions begin to repeat session and folder
_MESSAGE: Final = b'"message":{'
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
    """Reads as `LineReader` does, but gives only what is not as usual.

    Lines of usual answers are entered into the conversation at once (see `enter_into`). Results
    that an answer has followed are left out.
    """

    _like = Likeness()
    _answer_head = b"\n"  # likewise, of lines that are probably answers
    _usual: UsualAnswers

    def enter_into(self, conversation: Conversation) -> None:
        """Say whose the lines are; before any is read."""
        self._usual = UsualAnswers(conversation, self._own_id)

    def _entries_of_chunk(self, chunk: bytes, start: int) -> Generator[Entry | Problem, None, int]:
        """The lines that end in a chunk; then the place behind them."""
        view, number, usual = memoryview(chunk), self.number, self._usual
        held: Held = []
        while (end := chunk.find(b"\n", start)) >= 0:
            raw, head_at = view[start:end], start + _HEAD_AT
            number += 1
            if chunk.startswith(self._answer_head, head_at):
                answer = usual.decode(raw)
                if answer is not None and held:
                    yield from self._before(answer.message.id, held)
                if answer is None or not usual.take(answer):
                    yield from self._odd(number, raw, held)
            elif chunk.startswith(self._like.head, head_at) and self._is_like(chunk, start, end):
                held.append(Result(number, raw))
            else:
                yield from self._odd(number, raw, held)
            start = end + 1
        yield from self._read(held)
        self.number = number
        return start

    def _is_like(self, chunk: bytes, start: int, end: int) -> bool:
        """Whether a line that has the head begins and ends in the right way."""
        head, tail = self._like
        rest_at = start + _HEAD_AT + len(head)
        return chunk.startswith(_BEGIN, start) and chunk.endswith(tail, rest_at, end)

    def _odd(self, number: int, raw: memoryview, held: Held) -> Iterator[Entry | Problem]:
        """Any other line, or what it is held back with."""
        entry = self._decoded(number, raw)
        if entry is None:
            yield from self._read(held)
            yield from self._entry(raw, number)
        elif held and self._can_wait(entry.line):
            held.append(entry)
        else:
            if held:
                yield from self._before(self._reply_id(entry.line), held)
            self._usual.settle()
            yield entry
            self._learn_looks(entry)

    def _before(self, reply_id: str | None, held: Held) -> Iterator[Entry | Problem]:
        """What comes of the lines held back when a line of this reply (or none) follows."""
        if reply_id is None or self._usual.is_open(reply_id):
            yield from self._read(held)
        else:
            yield from (each for each in held if isinstance(each, Entry))
            held.clear()

    def _read(self, held: Held) -> Iterator[Entry | Problem]:
        self._usual.settle()
        for each in held:
            if isinstance(each, Entry):
                yield each
            elif (entry := self._decoded(each.number, each.raw)) is not None:
                yield entry
            else:
                yield from self._entry(each.raw, each.number)
        held.clear()

    def _learn_looks(self, entry: Entry) -> None:
        """Remember how answers begin, and how results look."""
        if entry.line.type == "assistant":
            raw = bytes(entry.raw)
            self._answer_head = raw[_HEAD_AT : raw.find(_MESSAGE) + len(_MESSAGE)] or b"\n"
        elif entry.line.type == "user" and self._is_usual_result(entry):
            self._like = likeness_of(bytes(entry.raw)) or self._like

    def _can_wait(self, line: Line) -> bool:
        """Whether a line may be taken after results that came before it."""
        return line.type not in _DEPEND_ON_RESULTS and not self._is_aside(line)

    def _reply_id(self, line: Line) -> str | None:
        """The id of the message that a line of an answer belongs to."""
        message = line.message
        is_reply = line.type == "assistant" and not is_notice(line) and not self._is_aside(line)
        return text_of(message.id) if is_reply and isinstance(message, Message) else None

    def _is_aside(self, line: Line) -> bool:
        """Whether a line belongs to a sidechain in the file of a session."""
        return line.is_sidechain is True and self._own_id is not None

    def _is_usual_result(self, entry: Entry) -> bool:
        """Whether it hands over a result, and others like it say nothing new of the session."""
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
