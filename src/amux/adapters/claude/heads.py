"""Reads the head of a transcript: start time, folder, parent and first answer.

The lines up to the first answer determine when and where the session began, whether there is a
conversation, which session a sub-agent belongs to, and whether it is a warm-up: each is decided by
the first line that has the value. Nearly all heads are ordinary and take a fast path. A head with
copied lines, or without an early answer, is read again with the rules for whole files. A damaged or
too long head gives no information: the file must be read. Newer versions write 100 KB of context
before the first answer; for them the fast path ends at the prompt, and the answer is read on
demand.

Inline sub-agents are ignored: only those with files of their own have an id and are listed.
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
from amux.adapters._kit.session_heads import SessionHead
from amux.adapters._kit.streams import RawFile
from amux.adapters._kit.values import parse_time
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
_PLAIN_TEXT: Final = re.compile(rb'"[!#-\[\]-~]')  # a string that begins with a visible character
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
"""The first answer lies beyond the read limit: it may be any answer of any time."""


class HeadInfo(msgspec.Struct, kw_only=True, gc=False):
    """The contents of a transcript up to its first answer."""

    head: SessionHead
    answer: Answer | UnsetType | None = None  # unset: not read yet
    earliest: float | None = None  # the earliest time, copied lines included
    size: int = 0  # number of bytes covered
    leaves: tuple[int, ...] = ()  # keys of the lines that it has titles for
    prompt: int | None = None  # key of the first user line, if the answer is unset
    is_compacted: bool = False  # whether that line is a compaction summary
    end: float | None = None  # the last time in the file, if it was read
    has_late_titles: bool | None = None  # whether titles of others follow the head; None: not read


def read_head(source: SourceRef, *, to_answer: bool = False) -> HeadInfo:
    """Read the head of a transcript; with `to_answer` up to the first answer."""
    try:
        if (found := _fast_head(source, to_answer=to_answer)) is not None:
            return found
        with open(source.location, "rb", buffering=0) as raw:  # noqa: PTH123 - the path is a string
            return _FullHead(source).read(_GrowingReads(cast("BinaryIO", raw)))
    except OSError:
        return _unknown_head(source)


def answer_of(one: HeadInfo) -> Answer | None:
    """Return the first answer, reading it if necessary; None if there is none."""
    if one.answer is UNSET:
        again = read_head(one.head.source, to_answer=True)
        is_found = again.head.told and again.answer is not UNSET
        one.answer = again.answer if is_found else UNKNOWN
        one.earliest = again.earliest
    return None if one.answer is UNSET else one.answer


def last_time(file: RawFile) -> float:
    """Return the last time in a file; infinity if it is unknown or a title follows it."""
    for length in _TAIL_SIZES:
        tail = file.last(length)
        start = tail.rfind(_TIME) + len(_TIME)
        if start >= len(_TIME):
            stamp = tail[start : tail.find(b'"', start)].decode("utf-8", "replace")
            last = None if tail.find(MAY_BE_TITLE, start) >= 0 else parse_time(stamp)
            return inf if last is None else last.timestamp()
    return inf


def _unknown_head(source: SourceRef) -> HeadInfo:
    return HeadInfo(head=SessionHead(source=source, session_id=own_id(source), told=False))


# Fast path


class _FastMessage(msgspec.Struct, gc=False):
    id: AnyJson = None
    content: msgspec.Raw = msgspec.Raw()


class _FastLine(msgspec.Struct, rename="camel", gc=False):
    """The fields that the rules need of a line before the first answer."""

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


_NO_MESSAGE: Final = _FastMessage()
_FAST_LINES: Final = msgspec.json.Decoder(_FastLine)


def _fast_head(source: SourceRef, *, to_answer: bool) -> HeadInfo | None:
    """Read an ordinary head; None if it needs the slow path."""
    with RawFile(source.location) as file:
        fast, data = _FastHead(source), b""
        for wanted in _READ_SIZES:
            data += file.next(wanted)
            if fast.read(data) or (fast.can_wait and not to_answer):
                found = fast.info(data)
                if found is not None and not found.head.nested:
                    found.end = last_time(file)  # most lists need it, and the file is open now
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
        """Whether only the first answer is missing, and copies would keep their times."""
        is_settled = self._is_spoken and self._cwd is not None and self._created is not None
        return is_settled and self._is_newer and not self.is_unusual and not self._is_agent

    def read(self, data: bytes) -> bool:
        """Process lines up to the first answer; False if it was not found or a line is unusual."""
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
        """Return the result; None if the sub-agent may be a warm-up."""
        if self._is_agent and data.find(_WARM_UP, 0, self._offset) >= 0:
            return None
        whose = self._source.parent or self._first_session
        uuid = None if self._prompt is None else text_of(self._prompt.uuid)
        head = SessionHead(
            source=self._source,
            session_id=self._id,
            created_at=self._created,
            cwd=self._cwd,
            nested=self._is_agent,
            names=(whose,) if self._is_agent and whose else (),
        )
        return HeadInfo(
            head=head,
            answer=UNSET if self._answer is None else self._answer,
            earliest=_seconds(self._earliest),
            size=self._offset,
            leaves=tuple(self._leaves),
            prompt=None if self._answer is not None or uuid is None else key_of(uuid),
            is_compacted=_is_summary(self._prompt),
        )

    def _take(self, line: _FastLine) -> None:
        session_id = line.session_id
        if self._is_agent:  # its lines name the session that started it
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
        message = line.message if isinstance(line.message, _FastMessage) else _NO_MESSAGE
        if line.type == "assistant":
            id = text_of(message.id)
            if id is None or self._cwd is None or self._created is None:
                self.is_unusual = True
            else:
                self._answer = Answer(id, _seconds(at), text_of(line.request_id) is not None)
        elif line.type == "user":
            self._prompt = self._prompt or line
            # Any plain text is a message, even if Claude Code wrote it.
            self._is_spoken |= _PLAIN_TEXT.match(message.content) is not None
            self._is_newer |= _keeps_times(text_of(line.version))
        elif line.type == "summary" and (leaf := text_of(line.leaf_uuid)) is not None:
            self._leaves.append(key_of(leaf))


@lru_cache
def _keeps_times(version: str | None) -> bool:
    """Return whether forks made by a version keep the times of copied lines."""
    key = version_key(version)
    return key is not None and key >= _KEEPS_TIMES_SINCE


# Slow path


class _GrowingReads:
    """A stream whose reads start small and double in size."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._size = _FIRST_READ
        self.taken = 0

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`."""
        data = self._raw.read(min(size, self._size))
        self.taken += len(data)
        self._size *= 2
        return data


class _FullHead:
    """Reads a head with the rules for whole files."""

    def __init__(self, source: SourceRef) -> None:
        self._source = source
        self._id = own_id(source)
        self._is_agent = source.role == "subagent"
        self._one = Conversation.begin("subagent" if self._is_agent else "main")
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
            origin = self._one.origin
            first = origin.first_session if self._is_agent else self._answer
            has_begun = origin.created is not None and origin.cwd is not None
            if has_begun and first is not None and self._one.call_state.has_messages:
                break
        return self._info()

    def _take(self, entry: Entry) -> None:
        line, at = entry.line, entry.at
        self._one.take(entry, lambda _: None)
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

    def _info(self) -> HeadInfo:
        """Return the result of the lines so far, or of the whole file if it has ended."""
        origin, call_state = self._one.origin, self._one.call_state
        whose = (self._source.parent or origin.first_session,)
        names = whose if self._is_agent else (origin.forked_from, origin.foreign)
        listed = call_state.has_messages and not call_state.warm_up
        head = SessionHead(
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
            head=head,
            answer=self._answer,
            earliest=_seconds(self._earliest),
            leaves=tuple(self._leaves),
            is_compacted=_is_summary(self._prompt),
        )


def _is_summary(line: _FastLine | Line | None) -> bool:
    return line is not None and line.is_compact_summary is True


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()
