"""Reading the messages of one session from all the sources its conversation lies in."""

from __future__ import annotations

from collections.abc import Iterator

from amux.adapters._base import Adapter, Head, Want
from amux.model.message import SessionMessage
from amux.model.problems import Problem
from amux.sessions.assemble import Assembly
from amux.sessions.parts import Joined


def read_conversation(
    adapter: Adapter, assembly: Assembly, session: Joined, *, want: Want
) -> Iterator[SessionMessage | Problem]:
    """Messages in order, history kept by reference first, and what could not be read. Streams."""
    in_fragments = len(session.pieces) > 1
    seen: set[str] = set()
    for part, until in assembly.conversation(session):
        wanted = part.facts.session_id
        inside = False
        for item in adapter.read(part.source, want=want, only=wanted, until=until):
            if isinstance(item, Head):
                inside = item.session_id == wanted
            elif isinstance(item, Problem):
                yield item
            elif inside and isinstance(item, SessionMessage) and item.id not in seen:
                yield item
                if in_fragments and item.id is not None:
                    seen.add(item.id)
