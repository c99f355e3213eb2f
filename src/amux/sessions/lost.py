"""Which of some sessions are gone: no source has their name, and none holds them."""

from __future__ import annotations

from collections.abc import Iterable

from amux.model.ids import split_unified_id
from amux.reading.registry import AdapterRegistry
from amux.reading.sources import SourceCatalog


def missing_sessions(
    registry: AdapterRegistry,
    library: SourceCatalog,
    unified_ids: Iterable[str],
    *,
    agent: str | None = None,
) -> tuple[str, ...]:
    """The unified ids (of one agent) that name nothing, in the given order."""
    wanted: dict[str, set[str]] = {}
    asked = [(name, split_unified_id(name) or ("", name)) for name in unified_ids]
    for _, (owner, native) in asked:
        wanted.setdefault(owner, set()).add(native)
    missing = {
        owner: _missing(registry, library, owner, natives)
        for owner, natives in wanted.items()
        if agent in (None, owner)
    }
    return tuple(name for name, (owner, native) in asked if native in missing.get(owner, ()))


def _missing(
    registry: AdapterRegistry, library: SourceCatalog, agent: str, natives: set[str]
) -> set[str]:
    """Those an agent does not have. Its sources are opened only if names are not enough."""
    if not registry.knows(agent):
        return natives
    left = natives - {source.session_id for source in library.sources(agent)}
    if not left:
        return left
    for session in library.assembly(agent).all_sessions():
        left -= {
            session.session_id,
            *(name for part in session.sources for name in part.facts.aliases),
        }
    return left
