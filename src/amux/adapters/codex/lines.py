"""Reads a rollout in large chunks and decodes many lines at once.

Consecutive lines in the newest format are decoded in one step, directly into the records that the
rules need. The types are at least as strict as those for single lines, so both ways give the same
result. A chunk with any other line is read line by line.

Reading may start at any line end: `offset` and `lines` say how much has been returned. A last line
without a line end is returned separately by `last_line`, because it may still grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Final

import msgspec

from amux.adapters._kit.jsonl import Buffer, Span, decode_line, object_lines
from amux.adapters._kit.long_lines import PendingLine
from amux.adapters._kit.streams import chunks
from amux.adapters.codex.records import (
    COMPACTED,
    EVENT,
    LINE,
    META,
    RESPONSE_ITEM,
    TURN_CONTEXT,
    USAGE_RECORD,
    Compacted,
    Event,
    Line,
    Meta,
    Ordinal,
    Record,
    ResponseItem,
    TurnContext,
    UsageRecord,
)
from amux.model.problems import Problem

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""Exceptions that decoding a value of any shape may raise."""


class Entry(msgspec.Struct, kw_only=True, gc=False, tag_field="type"):
    """A line with an envelope; fields that are not used have the types that `Line` requires."""

    timestamp: str | float | None = None
    ordinal: Ordinal | None = None
    record_type: str | None = None
    role: str | None = None
    id: str | None = None


class MetaEntry(Entry, tag="session_meta"):
    """The identity of the session."""

    payload: Meta


class ItemEntry(Entry, tag="response_item"):
    """Input or output of the model."""

    payload: ResponseItem


class EventEntry(Entry, tag="event_msg"):
    """An event shown on the screen."""

    payload: Event


class ContextEntry(Entry, tag="turn_context"):
    """The model of the following calls."""

    payload: TurnContext


class UsageEntry(Entry, tag="token_usage_record"):
    """One billed call."""

    payload: UsageRecord


class CompactedEntry(Entry, tag="compacted"):
    """A summary that replaces the history before it."""

    payload: Compacted


class WorldEntry(Entry, tag="world_state"):
    """Bookkeeping that every new session has."""

    payload: msgspec.Raw


class AgentsEntry(Entry, tag="inter_agent_communication_metadata"):
    """Bookkeeping that every sub-agent has."""

    payload: msgspec.Raw


AnyEntry = (
    MetaEntry
    | ItemEntry
    | EventEntry
    | ContextEntry
    | UsageEntry
    | CompactedEntry
    | WorldEntry
    | AgentsEntry
)


class LineBatch(msgspec.Struct, frozen=True, gc=False):
    """Consecutive decoded lines."""

    first: int  # the number of the first line
    entries: list[AnyEntry]
    chunk: bytes = b""
    spans: Sequence[Span] = ()  # positions of the lines in the chunk
    lines: Sequence[Buffer] = ()  # or the lines themselves, without a chunk

    def raw(self, number: int) -> bytes:
        """Return the bytes of a line."""
        index = number - self.first
        if self.lines:
            return bytes(self.lines[index])
        return self.chunk[slice(*self.spans[index])] if self.spans else b""

    def part(self, start: int, end: int) -> LineBatch:
        """Return some of the lines as a batch."""
        return LineBatch(
            self.first + start,
            self.entries[start:end],
            self.chunk,
            self.spans[start:end],
            self.lines[start:end],
        )

    def before(self, key: int) -> LineBatch:
        """Return the lines before the first one whose key is at least `key`."""
        for index, entry in enumerate(self.entries):
            own = self.first + index if entry.ordinal is None else entry.ordinal
            if own >= key:
                return self.part(0, index)
        return self


LogPart = LineBatch | Record
"""The units in which a log is read."""

ENTRY: Final = msgspec.json.Decoder(AnyEntry)


DECODERS: Final[dict[str, tuple[type[AnyEntry], msgspec.json.Decoder[Any]]]] = {
    "session_meta": (MetaEntry, META),
    "response_item": (ItemEntry, RESPONSE_ITEM),
    "event_msg": (EventEntry, EVENT),
    "turn_context": (ContextEntry, TURN_CONTEXT),
    "token_usage_record": (UsageEntry, USAGE_RECORD),
    "compacted": (CompactedEntry, COMPACTED),
}
"""Entry type and payload decoder for records that are not part of a batch."""


ToRecord = Callable[[int, Line, Buffer], Record]
"""Converts a line of any format, given its number, the line and its bytes."""


class Log:
    """Reads one stream to its end."""

    def __init__(
        self,
        stream: BinaryIO,
        path: str,
        *,
        to_record: ToRecord,
        cut_texts: bool,
        lines: int = 0,
        offset: int = 0,
    ) -> None:
        self.lines = lines
        self.offset = offset
        self._stream = stream
        self._path = path
        self._to_record = to_record
        self._pending = PendingLine(cut_texts=cut_texts)
        self._buffered = 0  # size of the pending line

    def whole_lines(self) -> Iterator[LogPart | Problem]:
        """Yield all lines that have a line end."""
        for chunk in chunks(self._stream):
            end = chunk.rfind(b"\n") + 1
            if not end:
                self._buffer(chunk)
                continue
            start = 0
            if self._buffered:
                start = chunk.find(b"\n") + 1
                self._pending.add(chunk[: start - 1])
                yield from self._decode_each([self._pending.take()])
            if start < end:
                yield from self._decode_chunk(chunk, start, end)
            self.offset += self._buffered + end
            self._buffered = 0
            if end < len(chunk):
                self._buffer(chunk[end:])

    def last_line(self) -> Iterator[LogPart | Problem]:
        """Yield what follows the last line end."""
        if self._buffered:
            yield from self._decode_each([self._pending.take()], ended=False)

    def _buffer(self, piece: bytes) -> None:
        self._pending.add(piece)
        self._buffered += len(piece)

    def _decode_chunk(self, chunk: bytes, start: int, end: int) -> Iterator[LogPart | Problem]:
        """Yield the lines between two offsets of a chunk."""
        try:
            entries = ENTRY.decode_lines(memoryview(chunk)[start:end])
        except UNREADABLE:
            entries = []
        # In a log of lines, a value that spans several lines is invalid.
        spans = object_lines(chunk, start, end)
        if spans is not None and len(entries) == len(spans):
            yield self._batch(entries, chunk=chunk, spans=spans)
        else:
            yield from self._decode_each(chunk[start : end - 1].split(b"\n"))

    def _decode_each(
        self, lines: Iterable[Buffer], *, ended: bool = True
    ) -> Iterator[LogPart | Problem]:
        """Yield lines of any format; consecutive ones in the newest format form a batch."""
        entries: list[AnyEntry] = []
        raws: list[Buffer] = []
        for line in lines:
            try:
                entries.append(ENTRY.decode(line))
                raws.append(line)
            except UNREADABLE:
                if entries:
                    yield self._batch(entries, lines=raws)
                    entries, raws = [], []
                self.lines += 1  # it is damaged, in an older format or of an unknown type
                found = decode_line(line, LINE, self._path, number=self.lines, ended=ended)
                if isinstance(found, tuple):
                    yield self._to_record(*found)
                elif found is not None:
                    yield found
        if entries:
            yield self._batch(entries, lines=raws)

    def _batch(
        self,
        entries: list[AnyEntry],
        *,
        chunk: bytes = b"",
        spans: Sequence[Span] = (),
        lines: Sequence[Buffer] = (),
    ) -> LineBatch:
        first = self.lines + 1
        self.lines += len(entries)
        return LineBatch(first, entries, chunk, spans, lines)
