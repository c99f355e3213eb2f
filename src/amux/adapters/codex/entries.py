"""Lines of a rollout, decoded many at once.

A run of lines that all have the newest form is decoded in one go, straight into the records that
the rules want. Its types demand at least what reading line by line demands, so that a run that
passes means the same either way. A run with anything else in it is read line by line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from amux.adapters._kit.jsonl import Buffer
from amux.adapters._kit.line_spans import Span
from amux.adapters.codex.records import (
    COMPACTED,
    EVENT,
    META,
    RESPONSE_ITEM,
    TURN_CONTEXT,
    USAGE_RECORD,
    Compacted,
    Event,
    Meta,
    Ordinal,
    Record,
    ResponseItem,
    TurnContext,
    UsageRecord,
)

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


class Run(msgspec.Struct, frozen=True, gc=False):
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

    def part(self, start: int, end: int) -> Run:
        """Some of its lines."""
        return Run(
            self.first + start,
            self.entries[start:end],
            self.chunk,
            self.spans[start:end],
            self.lines[start:end],
        )

    def before(self, key: int) -> Run:
        """The lines before the first one whose key is not below this one."""
        for index, entry in enumerate(self.entries):
            own = self.first + index if entry.ordinal is None else entry.ordinal
            if own >= key:
                return self.part(0, index)
        return self


Batch = Run | Record
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
