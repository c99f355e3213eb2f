"""Lines of a rollout, decoded many at once.

A run of lines that all have the newest form is decoded in one go, straight into the records that
the rules want. Its types demand at least what reading line by line demands, so that a run that
passes means the same either way. A run with anything else in it is read line by line.

A rollout as runs of whole lines: read in large chunks, decoded a chunk at a time.

Reading may begin in the middle, at the end of a line, and knows where it stands: `offset` and
`lines` tell what has been given. A last line without an end is held back until `rest`, for it may
still grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Final

import msgspec

from amux.adapters._kit.jsonl import Buffer, decode_line
from amux.adapters._kit.line_spans import Span, object_lines
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
"""What decoding a value of any shape may raise."""


class Entry(msgspec.Struct, kw_only=True, gc=False, tag_field="type"):
    """A line with an envelope; the fields without use here have the types that `Line` demands."""

    timestamp: str | float | None = None
    ordinal: Ordinal | None = None
    record_type: str | None = None
    role: str | None = None
    id: str | None = None


class MetaEntry(Entry, tag="session_meta"):
    """Who the session is."""

    payload: Meta


class ItemEntry(Entry, tag="response_item"):
    """What the model saw or said."""

    payload: ResponseItem


class EventEntry(Entry, tag="event_msg"):
    """What the screen was told."""

    payload: Event


class ContextEntry(Entry, tag="turn_context"):
    """The model of what follows."""

    payload: TurnContext


class UsageEntry(Entry, tag="token_usage_record"):
    """One billed call."""

    payload: UsageRecord


class CompactedEntry(Entry, tag="compacted"):
    """A summary that stands for the history before it."""

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
    """Some lines in a row."""

    first: int  # the number of the first line
    entries: list[AnyEntry]
    chunk: bytes = b""
    spans: Sequence[Span] = ()  # of the lines in the chunk
    lines: Sequence[Buffer] = ()  # or the lines themselves

    def raw(self, number: int) -> bytes:
        """A line as it stands."""
        index = number - self.first
        if self.lines:
            return bytes(self.lines[index])
        return self.chunk[slice(*self.spans[index])] if self.spans else b""

    def part(self, start: int, end: int) -> LineBatch:
        """Some of its lines."""
        return LineBatch(
            self.first + start,
            self.entries[start:end],
            self.chunk,
            self.spans[start:end],
            self.lines[start:end],
        )

    def before(self, key: int) -> LineBatch:
        """The lines before the first one whose key is not below this one."""
        for index, entry in enumerate(self.entries):
            own = self.first + index if entry.ordinal is None else entry.ordinal
            if own >= key:
                return self.part(0, index)
        return self


LogPart = LineBatch | Record
"""What a log is read as."""

ENTRY: Final = msgspec.json.Decoder(AnyEntry)


DECODERS: Final[dict[str, tuple[type[AnyEntry], msgspec.json.Decoder[Any]]]] = {
    "session_meta": (MetaEntry, META),
    "response_item": (ItemEntry, RESPONSE_ITEM),
    "event_msg": (EventEntry, EVENT),
    "turn_context": (ContextEntry, TURN_CONTEXT),
    "token_usage_record": (UsageEntry, USAGE_RECORD),
    "compacted": (CompactedEntry, COMPACTED),
}
"""How the payload of a record is decoded that did not come in a run."""


ToRecord = Callable[[int, Line, Buffer], Record]
"""Makes a record of a line in any form: its number, the line, its bytes."""


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
        self._buffered = 0  # bytes of the pending line

    def whole_lines(self) -> Iterator[LogPart | Problem]:
        """All lines that have an end."""
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
        """What stands behind the last line end."""
        if self._buffered:
            yield from self._decode_each([self._pending.take()], ended=False)

    def _buffer(self, piece: bytes) -> None:
        self._pending.add(piece)
        self._buffered += len(piece)

    def _decode_chunk(self, chunk: bytes, start: int, end: int) -> Iterator[LogPart | Problem]:
        """The lines between two places of a chunk."""
        try:
            entries = ENTRY.decode_lines(memoryview(chunk)[start:end])
        except UNREADABLE:
            entries = []
        # A value that is spread over several lines is none in a log of lines.
        spans = object_lines(chunk, start, end)
        if spans is not None and len(entries) == len(spans):
            yield self._batch(entries, chunk=chunk, spans=spans)
        else:
            yield from self._decode_each(chunk[start : end - 1].split(b"\n"))

    def _decode_each(
        self, lines: Iterable[Buffer], *, ended: bool = True
    ) -> Iterator[LogPart | Problem]:
        """Lines of any form; those between two that have to be read by themselves in one run."""
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
                yield from self._slow_path(line, ended=ended)
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

    def _slow_path(self, line: Buffer, *, ended: bool) -> Iterator[LogPart | Problem]:
        """A line of an older form, of a type that is not known, or damaged."""
        self.lines += 1
        found = decode_line(line, LINE, self._path, number=self.lines, ended=ended)
        if isinstance(found, tuple):
            yield self._to_record(*found)
        elif found is not None:
            yield found
