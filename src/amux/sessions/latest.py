"""Which session was written to last, by the times of files: only the newest ones are opened."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

from amux.adapters._base import SourceRef
from amux.assembly.assemble import Assembly
from amux.assembly.spans import time_span
from amux.errors import SessionNotFoundError
from amux.model.ids import NativeRef
from amux.reading.fingerprint import Fingerprints
from amux.reading.registry import AdapterRegistry
from amux.reading.sources import SourceCatalog


def find_latest(
    registry: AdapterRegistry, library: SourceCatalog, *, agent: str | None = None
) -> NativeRef:
    """The session whose files changed last; of a database the one with the newest record.

    Raises:
        SessionNotFoundError: There is none.
        AgentNotFoundError: The given agent is unknown.
    """
    if agent is not None:
        registry.require(agent)
    names = registry.names() if agent is None else (agent,)
    for source in _newest_first(library, names):
        found = _latest_of(library.assemble_sources(source.agent, [source]))
        if found is not None:
            return NativeRef(agent=source.agent, native_session_id=found)
    raise SessionNotFoundError(
        "no agent has a session here" if agent is None else f"{agent} has no session here",
        hint="`amux agents` shows where sessions are looked for",
    )


def _newest_first(library: SourceCatalog, agents: tuple[str, ...]) -> Iterator[SourceRef]:
    dated: list[tuple[int, SourceRef]] = []
    for agent in agents:
        fingerprints = Fingerprints(library.adapter(agent))
        for source in library.sources(agent):
            if source.role != "names" and not source.superseded:
                changed = fingerprints.of(source).newest_ns or _last_record(library, source)
                dated.append((changed, source))
    for _, source in sorted(dated, key=itemgetter(0), reverse=True):
        yield source


def _last_record(library: SourceCatalog, source: SourceRef) -> int:
    """Return when a source without files last changed, by its records, in nanoseconds."""
    if source.has_path:
        return 0
    sessions = library.assemble_sources(source.agent, [source]).sessions
    changed = (time_span(session)[1].timestamp() for session in sessions if session.listed)
    return int(max(changed, default=0) * 1e9)


def _latest_of(assembly: Assembly) -> str | None:
    """A sub-agent alone in its file stands for the session that started it."""
    sessions = [session for session in assembly.sessions if session.listed]
    latest = max(sessions, key=lambda session: time_span(session)[1], default=None)
    if latest is None:
        return None
    return latest.parent if latest.kind == "subagent" else latest.session_id
