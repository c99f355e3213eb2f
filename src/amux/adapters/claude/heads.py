"""What the head of a transcript tells for sure: when, where, whose, and its first answer.

By the first answer it is settled when and where the session began, that there is a conversation,
whose sub-agent it is, and whether it is a warm-up: all of these go by the first line that says so.
Nearly all heads are plain and are passed over quickly. One that holds copies, or no answer soon, is
read again by the rules that read the whole file. One that is damaged or grows too long tells
nothing: reading the file tells what is wrong with it. Newer versions write 100 KB of context before
the first answer; a head of theirs ends with the prompt, and the answer is looked for when somebody
asks.

Sub-agents inside the file of their session are not looked for: only those with files of their own
have an id, so only these are listed.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from itertools import chain
from math import inf
from typing import BinaryIO, Final, cast

import msgspec
from msgspec import UNSET, UnsetType

from amux.adapters._base import SourceRef
from amux.adapters._kit.pieces import Pieces
from amux.adapters._kit.sketches import Sketch
from amux.adapters._kit.times import parse_time
from amux.adapters.claude.conversation import Conversation, version_key
from amux.adapters.claude.lines import LineReader
from amux.adapters.claude.prompts import WARM_UP
from amux.adapters.claude.records import LINES, AnyJson, Entry, Line, Message, NotObject, text_of
from amux.adapters.claude.transcript import own_id
from amux.model.problems import Problem
from amux.model.trace import key_of

_FIRST_READ: Final = 8 << 10
_READ_SIZES: Final = (_FIRST_READ, 16 << 10, 64 << 10, 256 << 10)
_LONGEST: Final = 1 << 20
_KEEPS_TIMES_SINCE: Final = (2, 0, 77)
_PLAIN_TEXT: Final = re.compile(rb'"[!#-\[\]-~]')  # begins with a letter, no space or escape
_WARM_UP: Final = WARM_UP.encode()
_STAMPS: Final = (str, int, float)
_TAIL_SIZES: Final = (4 << 10, 16 << 10, 128 << 10, 1 << 20)
_TIME: Final = b'"timestamp":"'
MAY_BE_TITLE: Final = b'"summary"'
_UNDECODABLE: Final = (msgspec.DecodeError, UnicodeError, RecursionError)


class Answer(msgspec.Struct, frozen=True, gc=False):
    """The first answer of a file."""

    id: str
    at: float | None  # Unix seconds
    has_request: bool


UNKNOWN: Final = Answer("", None, has_request=False)
"""It is too far behind to be looked for: it may be any, of any time."""


class HeadInfo(msgspec.Struct, kw_only=True, gc=False):
    """What was seen up to the first answer."""

    sketch: Sketch
    answer: Answer | UnsetType | None = None  # unset: not seen yet
    earliest: float | None = None  # the first time on any line, copied ones too
    size: int = 0  # how many bytes of it were seen for sure
    leaves: tuple[int, ...] = ()  # lines it has titles for
    prompt: int | None = None  # where the answer is unset: the key of the first line of a user
    is_compacted: bool = False  # whether that line is a summary of what was said before
    end: float | None = None  # the last time in it, if that was looked for
    has_late_titles: bool | None = None  # when somebody asked: for others, behind the head


def read_head(source: SourceRef, *, to_answer: bool = False) -> HeadInfo:
    """Read the head of a transcript; with `to_answer` as far as that, if there is one."""
    try:
        return _fast_head(source, to_answer=to_answer) or _full_head(source)
    except OSError:
        return _unknown_head(source)


def answer_of(one: HeadInfo) -> Answer | None:
    """The first answer, looked for if it was not seen yet."""
    if one.answer is UNSET:
        seen = read_head(one.sketch.source, to_answer=True)
        is_found = seen.sketch.told and seen.answer is not UNSET
        one.answer = seen.answer if is_found else UNKNOWN
        one.earliest = seen.earliest
    return None if one.answer is UNSET else one.answer


def last_time(file: Pieces) -> float:
    """The last time in a file; without one, or behind titles, it may have been written any time."""
    for length in _TAIL_SIZES:
        tail = file.last(length)
        start = tail.rfind(_TIME) + len(_TIME)
        if start >= len(_TIME):
            return _time_at(tail, start)
    return inf


def _time_at(tail: bytes, start: int) -> float:
    stamp = tail[start : tail.find(b'"', start)].decode("utf-8", "replace")
    last = None if tail.find(MAY_BE_TITLE, start) >= 0 else parse_time(stamp)
    return inf if last is None else last.timestamp()


def _unknown_head(source: SourceRef) -> HeadInfo:
    return HeadInfo(sketch=Sketch(source=source, session_id=own_id(source), told=False))


# Plain heads


class _FastMessage(msgspec.Struct, gc=False):
    id: AnyJson = None
    content: msgspec.Raw = msgspec.Raw()


class _FastLine(msgspec.Struct, rename="camel", gc=False):
    """What the rules need of a line that stands before the first answer."""

    is_sidechain: AnyJson = None
    cwd: AnyJson = None
    session_id: AnyJson = None
    type: AnyJson = None
    message: _FastMessage | NotObject = None
    request_id: AnyJson = None
    timestamp: AnyJson = None
    forked_from: AnyJson = None
    metadata: AnyJson = None
    version: AnyJson = None
    leaf_uuid: AnyJson = None
    uuid: AnyJson = None
    is_compact_summary: AnyJson = None


_FAST_LINES: Final = msgspec.json.Decoder(_FastLine)


def _fast_head(source: SourceRef, *, to_answer: bool) -> HeadInfo | None:
    """The head of a session with nothing odd about it; None: look more carefully."""
    with Pieces(source.place) as file:
        fast, data = _FastHead(source), b""
        for wanted in _READ_SIZES:
            data += file.next(wanted)
            if fast.read(data) or (fast.can_wait and not to_answer):
                found = fast.info(data)
                if found is not None and not found.sketch.nested:
                    found.end = last_time(file)  # which most lists ask for: it is open now
                return found
            if fast.is_unusual:
                break
    return None


class _FastHead:
    """One pass over the first bytes of a file."""

    def __init__(self, source: SourceRef) -> None:
        self.is_unusual = False
        self._is_newer = False
        self._is_spoken = False
        self._source = source
        self._id = own_id(source)
        self._is_agent = source.role == "subagent"
        self._first_session: str | None = None
        self._offset = 0
        self._cwd: str | None = None
        self._created: datetime | None = None
        self._earliest: datetime | None = None
        self._leaves: list[int] = []
        self._answer: Answer | None = None
        self._prompt: _FastLine | None = None

    @property
    def can_wait(self) -> bool:
        """Whether everything but the first answer is settled, and copies would keep their times."""
        is_settled = self._is_spoken and self._cwd is not None and self._created is not None
        return is_settled and self._is_newer and not self.is_unusual and not self._is_agent

    def read(self, data: bytes) -> bool:
        """Go on to the first answer; False when it is not there, or something odd before it."""
        start, decode = self._offset, _FAST_LINES.decode
        while (end := data.find(b"\n", start)) >= 0:
            try:
                line = decode(data[start:end])
            except _UNDECODABLE:
                self.is_unusual = True
                return False
            start = self._offset = end + 1
            if self._is_agent or line.is_sidechain is not True:
                self._take(line)
                if self._answer is not None or self.is_unusual:
                    return not self.is_unusual
        return False

    def info(self, data: bytes) -> HeadInfo | None:
        """What it comes to; None for what may be a warm-up."""
        if self._is_agent and data.find(_WARM_UP, 0, self._offset) >= 0:
            return None
        whose = self._source.parent or self._first_session
        sketch = Sketch(
            source=self._source,
            session_id=self._id,
            created_at=self._created,
            cwd=self._cwd,
            nested=self._is_agent,
            names=(whose,) if self._is_agent and whose else (),
        )
        return HeadInfo(
            sketch=sketch,
            answer=UNSET if self._answer is None else self._answer,
            earliest=_seconds(self._earliest),
            size=self._offset,
            leaves=tuple(self._leaves),
            prompt=None if self._answer is not None else _key_of_line(self._prompt),
            is_compacted=_is_summary(self._prompt),
        )

    def _take(self, line: _FastLine) -> None:
        session_id = line.session_id
        if self._is_agent:  # whose lines name the session that started it
            self._first_session = self._first_session or text_of(session_id)
        elif session_id != self._id and text_of(session_id) is not None:
            self.is_unusual = True
        if self.is_unusual or line.forked_from is not None or line.metadata is not None:
            self.is_unusual = True
            return
        if self._cwd is None:
            self._cwd = text_of(line.cwd)
        stamp = line.timestamp
        at = parse_time(stamp) if isinstance(stamp, _STAMPS) else None
        if at is not None:
            self._created = self._created or at
            self._earliest = at if self._earliest is None else min(at, self._earliest)
        if line.type == "assistant":
            self._note_answer(line, at)
        elif line.type == "user":
            self._note_prompt(line)
        elif line.type == "summary" and (leaf := text_of(line.leaf_uuid)) is not None:
            self._leaves.append(key_of(leaf))

    def _note_prompt(self, line: _FastLine) -> None:
        """A line with a plain text is a message, whoever wrote it."""
        self._prompt = self._prompt or line
        content = line.message.content if isinstance(line.message, _FastMessage) else b""
        self._is_spoken |= _PLAIN_TEXT.match(content) is not None
        self._is_newer |= _keeps_times(text_of(line.version))

    def _note_answer(self, line: _FastLine, at: datetime | None) -> None:
        message = line.message
        id = text_of(message.id) if isinstance(message, _FastMessage) else None
        if id is None or self._cwd is None or self._created is None:
            self.is_unusual = True
        else:
            self._answer = Answer(id, _seconds(at), text_of(line.request_id) is not None)


@lru_cache
def _keeps_times(version: str | None) -> bool:
    """Whether forks that a version makes have the times of what they copy."""
    key = version_key(version)
    return key is not None and key >= _KEEPS_TIMES_SINCE


# Others


def _full_head(source: SourceRef) -> HeadInfo:
    with open(source.place, "rb", buffering=0) as raw:  # noqa: PTH123 - a text
        return _FullHead(source).read(_GrowingReads(cast("BinaryIO", raw)))


class _GrowingReads:
    """A stream that gives little at first and more with every call."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._size = _FIRST_READ
        self.taken = 0

    def read(self, size: int) -> bytes:
        """The next bytes, however many are asked for."""
        data = self._raw.read(min(size, self._size))
        self.taken += len(data)
        self._size *= 2
        return data


class _FullHead:
    """A head as the rules for the whole file see it."""

    def __init__(self, source: SourceRef) -> None:
        self._source = source
        self._id = own_id(source)
        self._is_agent = source.role == "subagent"
        self._one = Conversation.begin("subagent" if self._is_agent else "main", described=False)
        self._answer: Answer | None = None
        self._earliest: datetime | None = None
        self._leaves: list[int] = []
        self._prompt: Line | None = None

    def read(self, stream: _GrowingReads) -> HeadInfo:
        lines = LineReader(
            str(self._source.path),
            LINES,
            own_id=None if self._is_agent else self._id,
            cut_texts=True,
        )
        whole = lines.whole_lines(cast("BinaryIO", stream))
        for entry in chain(whole, lines.last_line()):
            if stream.taken > _LONGEST or isinstance(entry, Problem):
                return _unknown_head(self._source)
            if entry.line.is_sidechain is True and not self._is_agent:
                continue
            self._take(entry)
            if self._is_settled():
                break
        return self._info()

    def _take(self, entry: Entry) -> None:
        line, at = entry.line, entry.at
        self._one.take_cost(entry)
        if at is not None and (self._earliest is None or at < self._earliest):
            self._earliest = at
        if line.type == "summary" and (leaf := text_of(line.leaf_uuid)) is not None:
            self._leaves.append(key_of(leaf))
        elif self._answer is None and self._one.call_state.identity:
            id = text_of(line.message.id) if isinstance(line.message, Message) else None
            has_request = text_of(line.request_id) is not None
            self._answer = Answer(id or "", _seconds(at), has_request)
        elif line.type == "user":
            self._prompt = self._prompt or line

    def _is_settled(self) -> bool:
        origin = self._one.origin
        if origin.created is None or origin.cwd is None or not self._one.call_state.has_messages:
            return False
        return origin.first_session is not None if self._is_agent else self._answer is not None

    def _info(self) -> HeadInfo:
        """What the lines so far come to; at the end of the file that is all there is."""
        origin, call_state = self._one.origin, self._one.call_state
        whose = (self._source.parent or origin.first_session,)
        names = whose if self._is_agent else (origin.forked_from, origin.foreign)
        listed = call_state.has_messages and not call_state.warm_up
        sketch = Sketch(
            source=self._source,
            session_id=self._id,
            listed=listed,
            told=not listed or origin.created_at is not None,
            created_at=origin.created_at,
            cwd=origin.cwd,
            nested=self._is_agent,
            names=tuple(name for name in names if name),
        )
        return HeadInfo(
            sketch=sketch,
            answer=self._answer,
            earliest=_seconds(self._earliest),
            leaves=tuple(self._leaves),
            is_compacted=_is_summary(self._prompt),
        )


def _key_of_line(line: _FastLine | None) -> int | None:
    uuid = None if line is None else text_of(line.uuid)
    return None if uuid is None else key_of(uuid)


def _is_summary(line: _FastLine | Line | None) -> bool:
    return line is not None and line.is_compact_summary is True


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()
