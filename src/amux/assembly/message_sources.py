"""Where the messages of a session lie, and reading them from there.

A conversation is known by places alone: it can be kept, and read later without what it was made
from.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from amux.adapters._base import Adapter, Head, SourceRef, Want
from amux.assembly.assemble import Assembly
from amux.assembly.session import AssembledSession
from amux.model.message import SessionMessage
from amux.model.problems import Problem


class SourceSlice(msgspec.Struct, frozen=True, array_like=True):
    """One session within one source, up to a trace key."""

    source: SourceRef
    session_id: str
    until: int | None = None


class MessageSources(msgspec.Struct, frozen=True, array_like=True):
    """The messages of one session, sub-agents not included; history kept by reference first."""

    session_id: str
    slices: tuple[SourceSlice, ...]
    in_fragments: bool = False  # several sources may hold the same message

    @property
    def is_whole(self) -> bool:
        """Whether it is all of what one source says of one session."""
        return len(self.slices) == 1 and self.slices[0].until is None


def message_sources(assembly: Assembly, session: AssembledSession) -> MessageSources:
    """Where the session's messages lie."""
    return MessageSources(
        session.session_id,
        tuple(
            SourceSlice(part.source, part.facts.session_id, until)
            for part, until in assembly.source_path(session)
        ),
        len(session.fragments) > 1,
    )


def read_messages(
    adapter: Adapter, conversation: MessageSources, *, want: Want
) -> Iterator[SessionMessage | Problem]:
    """Messages in order, and what could not be read. Streams."""
    seen: set[str] = set()
    for source, wanted, until in _locations(conversation):
        inside = False
        for item in adapter.read(source, want=want, only=wanted, until=until):
            if isinstance(item, Head):
                inside = item.session_id == wanted
            elif isinstance(item, Problem):
                yield item
            elif inside and isinstance(item, SessionMessage) and item.id not in seen:
                yield item
                if conversation.in_fragments and item.id is not None:
                    seen.add(item.id)


def _locations(conversation: MessageSources) -> Iterator[tuple[SourceRef, str, int | None]]:
    return ((each.source, each.session_id, each.until) for each in conversation.slices)
