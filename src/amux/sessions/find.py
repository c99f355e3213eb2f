"""Finding a session by what a person types: unified id, native id, a unique prefix, or its title.

Names of sources are asked first, so that an id is found without opening a file. An id is only ever
compared with what exists; it never becomes part of a path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from amux.adapters._base import SourceRef
from amux.adapters._kit.related import FindsRelated, Named
from amux.assembly.assemble import Assembly
from amux.assembly.session import time_span
from amux.errors import AmbiguousIdError, SessionNotFoundError
from amux.model.ids import NativeRef, split_unified_id, unified_id
from amux.model.problems import Problem
from amux.reading.fingerprint import Fingerprints
from amux.reading.registry import AdapterRegistry
from amux.reading.sources import SourceCatalog
from amux.reading.unreadable import damaged, find_read_error, unreadable_hint

_MAX_CANDIDATES = 10


class Found(NamedTuple):
    """A session, and all of its agent where finding it took a look at everything."""

    ref: NativeRef
    assembly: Assembly | None = None


def find_session(
    registry: AdapterRegistry,
    catalog: SourceCatalog,
    ref: str,
    *,
    agent: str | None = None,
    by_title: bool = False,
) -> Found:
    """The one session that is meant; with `by_title`, a whole title names it too.

    Raises:
        SessionNotFoundError: Nothing fits.
        ParseError: A source has the name of the session, but cannot be read.
        AmbiguousIdError: Several sessions fit; the error lists them.
        AgentNotFoundError: The given agent is unknown.
    """
    agents, text = _scope(registry, ref, agent)
    problems: list[Problem] = []
    for candidates in _looks(catalog, agents, text, by_title=by_title, problems=problems):
        exact = [found for found in candidates if found.ref.native_session_id == text]
        fitting = exact or candidates
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise _ambiguous(ref, [found.ref for found in fitting])
    for owner in agents if text.strip() else ():
        damage = find_read_error(catalog, owner, text)
        if damage is not None:
            raise damaged(owner, text, damage)
    shown = f"`amux list{'' if agent is None else ' ' + agent}` shows what there is"
    raise SessionNotFoundError(
        f"no session `{ref}` of {' or '.join(agents)}", hint=shown + unreadable_hint(problems)
    )


def _scope(registry: AdapterRegistry, ref: str, agent: str | None) -> tuple[Sequence[str], str]:
    """Which agents to look at, and the id part of what was typed."""
    parts = split_unified_id(ref)
    if agent is not None:
        registry.require(agent)
        return (agent,), parts[1] if parts is not None and parts[0] == agent else ref
    if parts is not None and registry.knows(parts[0]):
        return (parts[0],), parts[1]
    return registry.names(), ref


def _looks(
    catalog: SourceCatalog,
    agents: Sequence[str],
    text: str,
    *,
    by_title: bool,
    problems: list[Problem],
) -> Iterator[list[Found]]:
    """What fits, from the cheapest look to the dearest: the next is taken when nothing did.

    The last look adds the problems it met.
    """
    if text.strip():  # nothing typed would be a prefix of everything
        yield _by_name(catalog, agents, text)
        yield _by_id_prefix(catalog, agents, text)
        yield _by_asking(catalog, agents, text)
        yield _by_content(catalog, agents, text, by_title=by_title, problems=problems)


def _by_name(catalog: SourceCatalog, agents: Iterable[str], text: str) -> list[Found]:
    """Sessions whose source's name begins with the text."""
    found: dict[tuple[str, str], None] = {}
    for agent in agents:
        for source in catalog.sources(agent):
            native = source.session_id
            if native is None or source.role != "session" or source.superseded:
                continue
            if native.startswith(text) or source.name.split(".")[0] == text:
                found.setdefault((agent, native))
    return [Found(NativeRef(agent=agent, native_session_id=native)) for agent, native in found]


def _by_id_prefix(catalog: SourceCatalog, agents: Iterable[str], text: str) -> list[Found]:
    """Sessions whose source's name shows how the id begins; the id itself stands inside."""
    found: dict[tuple[str, str], None] = {}
    for agent in agents:
        fitting = [
            source
            for source in catalog.sources(agent)
            if source.id_prefix and _agree(source.id_prefix, text)
        ]
        for session in catalog.assemble_sources(agent, fitting).all_sessions():
            if session.session_id.startswith(text):
                found.setdefault((agent, session.session_id))
    return [Found(NativeRef(agent=agent, native_session_id=native)) for agent, native in found]


def _agree(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def _by_asking(catalog: SourceCatalog, agents: Iterable[str], text: str) -> list[Found]:
    """Sessions of databases that tell what is in them, copies left behind, sub-agents."""
    found: dict[tuple[str, str], None] = {}
    for agent in agents:
        named = _told_names(catalog, agent, text)
        holders = Counter(one.session_id for one in named)
        for session_id, aliases in named:
            if text in aliases and holders[session_id] > 1:
                found.setdefault((agent, text))
            elif any(name.startswith(text) for name in (session_id, *aliases)):
                found.setdefault((agent, session_id))
    return [Found(NativeRef(agent=agent, native_session_id=native)) for agent, native in found]


def _told_names(catalog: SourceCatalog, agent: str, text: str) -> list[Named]:
    """What the sessions of an agent go by; nothing if there is a source that does not tell.

    Sub-agents are told by the whole name only: some of them are none, which shows when they are
    read.
    """
    adapter = catalog.adapter(agent)
    named: list[Named] = []
    if not isinstance(adapter, FindsRelated):
        return named
    for source in catalog.sources(agent):
        promised = source.session_id
        if promised is None and source.role == "session":
            told = adapter.names(source)
            if told is None:
                return []
            named += told
        elif promised is not None and source.role == "session":
            named.append(Named(promised))
        elif promised is not None and source.role == "subagent":
            stem = source.name.partition(".")[0]
            named += [Named(promised, (stem,))] if text in {promised, stem} else []
    return named


def _by_content(
    catalog: SourceCatalog,
    agents: Iterable[str],
    text: str,
    *,
    by_title: bool,
    problems: list[Problem],
) -> list[Found]:
    """Sessions whose id, alias or title says so; needs a look into every source."""
    found: dict[tuple[str, str], None] = {}
    titled: dict[tuple[str, str], None] = {}
    everything: dict[str, Assembly] = {}
    for agent in agents:
        assembly = everything[agent] = catalog.assembly(agent)
        problems += assembly.problems
        sessions = list(assembly.all_sessions())
        holders = Counter(session.session_id for session in sessions)
        for session in sessions:
            aliases = [alias for part in session.sources for alias in part.facts.aliases]
            if text in aliases and holders[session.session_id] > 1:
                found.setdefault((agent, text))  # its id alone would name another one, too
            elif any(name.startswith(text) for name in (session.session_id, *aliases)):
                found.setdefault((agent, session.session_id))
            elif by_title and session.title.casefold() == text.casefold():
                titled.setdefault((agent, session.session_id))
    return [
        Found(NativeRef(agent=agent, native_session_id=native), everything[agent])
        for agent, native in found or titled
    ]


def _ambiguous(ref: str, found: Sequence[NativeRef]) -> AmbiguousIdError:
    names = sorted(unified_id(one.agent, one.native_session_id) for one in found)
    shown = ", ".join(f"`{name}`" for name in names[:_MAX_CANDIDATES])
    more = f" and {len(names) - _MAX_CANDIDATES} more" if len(names) > _MAX_CANDIDATES else ""
    return AmbiguousIdError(
        f"`{ref}` fits {len(names)} sessions: {shown}{more}",
        candidates=names,
        hint="type more of the id",
    )


def find_latest(
    registry: AdapterRegistry, catalog: SourceCatalog, *, agent: str | None = None
) -> NativeRef:
    """The session whose files changed last; of a database the one with the newest record.

    Raises:
        SessionNotFoundError: There is none.
        AgentNotFoundError: The given agent is unknown.
    """
    if agent is not None:
        registry.require(agent)
    names = registry.names() if agent is None else (agent,)
    for source in _newest_first(catalog, names):
        found = _latest_of(catalog.assemble_sources(source.agent, [source]))
        if found is not None:
            return NativeRef(agent=source.agent, native_session_id=found)
    raise SessionNotFoundError(
        "no agent has a session here" if agent is None else f"{agent} has no session here",
        hint="`amux agents` shows where sessions are looked for",
    )


def _newest_first(catalog: SourceCatalog, agents: tuple[str, ...]) -> Iterator[SourceRef]:
    dated: list[tuple[int, SourceRef]] = []
    for agent in agents:
        fingerprints = Fingerprints(catalog.adapter(agent))
        for source in catalog.sources(agent):
            if source.role != "names" and not source.superseded:
                changed = fingerprints.of(source).newest_ns or _last_record(catalog, source)
                dated.append((changed, source))
    for _, source in sorted(dated, key=itemgetter(0), reverse=True):
        yield source


def _last_record(catalog: SourceCatalog, source: SourceRef) -> int:
    """Return when a source without files last changed, by its records, in nanoseconds."""
    if source.has_path:
        return 0
    sessions = catalog.assemble_sources(source.agent, [source]).sessions
    changed = (time_span(session)[1].timestamp() for session in sessions if session.listed)
    return int(max(changed, default=0) * 1e9)


def _latest_of(assembly: Assembly) -> str | None:
    """A sub-agent alone in its file stands for the session that started it."""
    sessions = [session for session in assembly.sessions if session.listed]
    latest = max(sessions, key=lambda session: time_span(session)[1], default=None)
    if latest is None:
        return None
    return latest.parent if latest.kind == "subagent" else latest.session_id


def missing_sessions(
    registry: AdapterRegistry,
    catalog: SourceCatalog,
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
        owner: _missing(registry, catalog, owner, natives)
        for owner, natives in wanted.items()
        if agent in (None, owner)
    }
    return tuple(name for name, (owner, native) in asked if native in missing.get(owner, ()))


def _missing(
    registry: AdapterRegistry, catalog: SourceCatalog, agent: str, natives: set[str]
) -> set[str]:
    """Those an agent does not have. Its sources are opened only if names are not enough."""
    if not registry.knows(agent):
        return natives
    left = natives - {source.session_id for source in catalog.sources(agent)}
    if not left:
        return left
    for session in catalog.assembly(agent).all_sessions():
        left -= {
            session.session_id,
            *(name for part in session.sources for name in part.facts.aliases),
        }
    return left
