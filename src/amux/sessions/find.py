"""Find sessions: by id, unique prefix or title; the latest one; and which ids name no session.

Rows of the index are asked first, if they are up to date, then the names of sources, so that an id
is usually found without opening a file. An id is only compared with existing names; it never
becomes part of a path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple, Protocol

from amux.adapters._base import SourceRef
from amux.adapters._kit.related import FindsRelated
from amux.assembly.assemble import Assembly
from amux.assembly.session import AssembledSession, time_span, unique_aliases
from amux.errors import AmbiguousIdError, SessionNotFoundError
from amux.index.rows.stored_session import NamedSession
from amux.model.ids import NativeRef, split_unified_id, unified_id
from amux.model.problems import Problem
from amux.reading.fingerprint import Fingerprints
from amux.reading.registry import AdapterRegistry
from amux.reading.sources import SourceCatalog
from amux.reading.unreadable import (
    damaged,
    find_read_error,
    has_source_failure,
    unreadable_hint,
)

_MAX_CANDIDATES = 10

_Names = Sequence[str]
"""The id of a session, followed by its aliases."""

_ContentLookup = Callable[[Sequence[NamedSession], str], Iterator[str]]
"""Yields the ids of the sessions that a text names."""


class Found(NamedTuple):
    """A session, with the assembly of its agent if all sources had to be read to find it."""

    ref: NativeRef
    assembly: Assembly | None = None
    is_unique: bool = False  # whether no other session of the agent is known to have its id


class StoredNames(Protocol):
    """The names of sessions in the index; each method returns None if it is not sure of them."""

    def session_named(self, agents: Sequence[str], text: str) -> NamedSession | None:
        """Return the only session that has a name that begins with a text."""
        ...

    def session_names(
        self, agents: Sequence[str]
    ) -> tuple[list[NamedSession], list[Problem]] | None:
        """Return the names of all sessions, and the problems of reading them."""
        ...


class _Listing:
    """The sources of each agent, listed once for one question."""

    def __init__(self, catalog: SourceCatalog) -> None:
        self.catalog = catalog
        self._sources: dict[str, list[SourceRef]] = {}

    def sources(self, agent: str) -> list[SourceRef]:
        if agent not in self._sources:
            self._sources[agent] = self.catalog.sources(agent)
        return self._sources[agent]

    def assembly(self, agent: str) -> Assembly:
        return self.catalog.assemble_sources(agent, self.sources(agent))


def find_session(
    registry: AdapterRegistry,
    catalog: SourceCatalog,
    ref: str,
    *,
    stored: StoredNames,
    agent: str | None = None,
    by_title: bool = False,
) -> Found:
    """Return the one session that `ref` names; with `by_title`, a whole title names it, too.

    If the names in the index are up to date, no source is listed for an id, and none is read.

    Raises:
        SessionNotFoundError: No session matches.
        ParseError: A source has the name of the session, but cannot be read.
        AmbiguousIdError: Several sessions match; the error lists them.
        AgentNotFoundError: The given agent is unknown.
    """
    agents, text = _scope(registry, ref, agent)
    if text.strip() and (known := stored.session_named(agents, text)):
        return Found(NativeRef(agent=known.agent, native_session_id=known.names[0]))
    problems: list[Problem] = []
    listing = _Listing(catalog)
    for candidates in _candidates(
        listing, stored, agents, text, by_title=by_title, problems=problems
    ):
        exact = [found for found in candidates if found.ref.native_session_id == text]
        matches = exact or candidates
        if len(matches) == 1:
            (found,) = matches
            if not found.is_unique and (apart := _sessions_apart(listing, found)):
                names = [unified_id(found.ref.agent, alias) for alias in apart]
                raise _ambiguous(ref, names, hint="one of these names is enough")
            return found
        if matches:
            names = [unified_id(found.ref.agent, found.ref.native_session_id) for found in matches]
            raise _ambiguous(ref, names, hint="type more of the id")
    for owner in agents if text.strip() else ():
        problem = find_read_error(catalog, owner, text, sources=listing.sources(owner))
        if problem is not None:
            raise damaged(owner, text, problem)
    shown = f"`amux list{'' if agent is None else ' ' + agent}` shows what there is"
    raise SessionNotFoundError(
        f"no session `{ref}` of {' or '.join(agents)}", hint=shown + unreadable_hint(problems)
    )


def _scope(registry: AdapterRegistry, ref: str, agent: str | None) -> tuple[Sequence[str], str]:
    """Return the agents to search, and the part of a reference that is the id."""
    parts = split_unified_id(ref)
    if agent is not None:
        registry.require(agent)
        return (agent,), parts[1] if parts is not None and parts[0] == agent else ref
    if parts is not None and registry.knows(parts[0]):
        return (parts[0],), parts[1]
    return registry.names(), ref


def _candidates(
    listing: _Listing,
    stored: StoredNames,
    agents: Sequence[str],
    text: str,
    *,
    by_title: bool,
    problems: list[Problem],
) -> Iterator[list[Found]]:
    """Yield the matches of each lookup, cheapest first; a caller stops at the first matches.

    The lookups by alias and title use the index. If that is not sure, they read all sources. They
    add the problems of reading to `problems`.
    """
    if not text.strip():
        return  # it would be a prefix of every id
    for lookup in (_ids_from_source_names, _ids_from_id_prefixes, _ids_from_adapter):
        yield [
            Found(NativeRef(agent=agent, native_session_id=native))
            for agent in agents
            for native in dict.fromkeys(lookup(listing, agent, text))
        ]
    lookups = (_ids_from_names, _ids_from_titles)[: 2 if by_title else 1]
    found = _stored_candidates(stored, agents, text, lookups)
    if found is not None:
        yield from found
        return
    assemblies = {agent: listing.assembly(agent) for agent in agents}
    problems += (problem for each in assemblies.values() for problem in each.problems)
    sessions = {agent: _named(assembly) for agent, assembly in assemblies.items()}
    for content_lookup in lookups:
        yield [
            Found(NativeRef(agent=agent, native_session_id=native), assemblies[agent])
            for agent, named in sessions.items()
            for native in dict.fromkeys(content_lookup(named, text))
        ]


def _named(assembly: Assembly) -> list[NamedSession]:
    """Return the sessions that a list may show: others cannot be addressed."""
    return [
        NamedSession(each.agent, each.names(), each.title)
        for each in assembly.all_sessions()
        if each.listed
    ]


def _stored_candidates(
    stored: StoredNames, agents: Sequence[str], text: str, lookups: Sequence[_ContentLookup]
) -> list[list[Found]] | None:
    """Return the matches of lookups by alias and title in the index.

    None if it is not sure of the names, if a source could not be read, which an error has to
    mention, or if several sessions have the id of a match: only assembling them tells them apart.
    """
    answer = stored.session_names(agents)
    if answer is None or has_source_failure(answer[1]):
        return None
    by_agent: dict[str, list[NamedSession]] = {agent: [] for agent in agents}
    for session in answer[0]:
        by_agent[session.agent].append(session)
    id_counts = Counter((session.agent, session.names[0]) for session in answer[0])
    found: list[list[Found]] = []
    for lookup in lookups:
        matches = [
            (agent, native)
            for agent, sessions in by_agent.items()
            for native in dict.fromkeys(lookup(sessions, text))
        ]
        if any(id_counts[match] != 1 for match in matches):
            return None
        found.append(
            [
                Found(NativeRef(agent=agent, native_session_id=native), is_unique=True)
                for agent, native in matches
            ]
        )
    return found


def _ids_from_source_names(listing: _Listing, agent: str, text: str) -> Iterator[str]:
    for source in listing.sources(agent):
        native = source.session_id
        if native is None or source.role != "session" or source.superseded:
            continue
        if native.startswith(text) or source.name.split(".")[0] == text:
            yield native


def _ids_from_id_prefixes(listing: _Listing, agent: str, text: str) -> Iterator[str]:
    """Yield ids from sources whose name has only the first part of the id: these are read."""
    matching = [
        source
        for source in listing.sources(agent)
        if (prefix := source.id_prefix) and (prefix.startswith(text) or text.startswith(prefix))
    ]
    for session in listing.catalog.assemble_sources(agent, matching).all_sessions():
        if session.session_id.startswith(text):
            yield session.session_id


def _ids_from_adapter(listing: _Listing, agent: str, text: str) -> Iterable[str]:
    """Return ids of sessions in databases, of superseded copies and of sub-agents.

    Nothing is returned if the adapter cannot list the sessions of all sources. A sub-agent matches
    only with its whole name: only reading it shows whether it is one.
    """
    adapter = listing.catalog.adapter(agent)
    if not isinstance(adapter, FindsRelated):
        return ()
    names: list[_Names] = []
    for source in listing.sources(agent):
        native = source.session_id
        if native is None and source.role == "session":
            listed = adapter.names(source)
            if listed is None:
                return ()
            names += ((each.session_id, *each.aliases) for each in listed)
        elif native is not None and source.role == "session":
            names.append((native,))
        elif native is not None and source.role == "subagent":
            stem = source.name.partition(".")[0]
            if text in {native, stem}:
                names.append((native, stem))
    return _matching(names, text)


def _ids_from_names(sessions: Sequence[NamedSession], text: str) -> Iterator[str]:
    return _matching([session.names for session in sessions], text)


def _ids_from_titles(sessions: Sequence[NamedSession], text: str) -> Iterator[str]:
    for session in sessions:
        if session.title.casefold() == text.casefold():
            yield session.names[0]


def _matching(sessions: Sequence[_Names], text: str) -> Iterator[str]:
    """Yield the ids of sessions one of whose names begins with a text."""
    id_counts = Counter(names[0] for names in sessions)
    for names in sessions:
        if text in names[1:] and id_counts[names[0]] > 1:
            yield text  # the id alone would name another session, too
        elif any(name.startswith(text) for name in names):
            yield names[0]


def _sessions_apart(listing: _Listing, found: Found) -> dict[str, AssembledSession]:
    """Return the sessions with an id by names that are unique; empty if only one session has it.

    Sources of one group share ids only for copies, or the agent has a rule for them. So sessions
    are compared only if sources of several groups have the id.
    """
    agent, native = found.ref.agent, found.ref.native_session_id
    assembly = found.assembly
    if assembly is None:
        if len({source.group for source in _sources_with(listing, agent, native)}) <= 1:
            return {}
        sources = listing.sources(agent)
        assembly = listing.catalog.assembly_for(agent, native, sources=sources)
    sessions = [
        each for each in assembly.all_sessions() if each.session_id == native and each.listed
    ]
    groups = {part.source.group for each in sessions for part in each.sources}
    named = {alias: each for each, alias in unique_aliases(sessions).items() if alias != native}
    return named if len(named) > 1 and len(groups) > 1 else {}


def _sources_with(listing: _Listing, agent: str, native: str) -> Iterator[SourceRef]:
    """Yield the sources that have a session with an id; none if all are of one group."""
    adapter = listing.catalog.adapter(agent)
    sources = listing.sources(agent)
    has_groups = len({source.group for source in sources}) > 1
    for source in sources if has_groups else ():
        names = [source.session_id]
        if names == [None] and source.role == "session" and isinstance(adapter, FindsRelated):
            names = [each.session_id for each in adapter.names(source) or ()]
        if native in names:
            yield source


def _ambiguous(ref: str, found: Iterable[str], *, hint: str) -> AmbiguousIdError:
    names = sorted(found)
    shown = ", ".join(f"`{name}`" for name in names[:_MAX_CANDIDATES])
    more = f" and {len(names) - _MAX_CANDIDATES} more" if len(names) > _MAX_CANDIDATES else ""
    return AmbiguousIdError(
        f"`{ref}` fits {len(names)} sessions: {shown}{more}",
        candidates=names,
        hint=hint,
    )


def find_latest(
    registry: AdapterRegistry, catalog: SourceCatalog, *, agent: str | None = None
) -> NativeRef:
    """Return the session whose files changed last; in a database, that with the newest record.

    Raises:
        SessionNotFoundError: There is no session.
        AgentNotFoundError: The given agent is unknown.
    """
    if agent is not None:
        registry.require(agent)
    names = registry.names() if agent is None else (agent,)
    listing = _Listing(catalog)
    for source in _newest_first(listing, names):
        assembly = catalog.assemble_sources(source.agent, [source])
        sessions = [session for session in assembly.sessions if session.listed]
        latest = max(sessions, key=lambda session: time_span(session)[1], default=None)
        if latest is None:
            continue
        # A sub-agent alone in its file stands for the session that started it.
        native = latest.parent if latest.kind == "subagent" else latest.session_id
        if native is not None:
            return _named_in(listing, source, native)
    raise SessionNotFoundError(
        "no agent has a session here" if agent is None else f"{agent} has no session here",
        hint="`amux agents` shows the directories that are searched for sessions",
    )


def _named_in(listing: _Listing, source: SourceRef, native: str) -> NativeRef:
    """Return the session of a source with an id, by a name that no other session has."""
    ref = NativeRef(agent=source.agent, native_session_id=native)
    for alias, session in _sessions_apart(listing, Found(ref)).items():
        if any(part.source.location == source.location for part in session.sources):
            return NativeRef(agent=source.agent, native_session_id=alias)
    return ref


def _newest_first(listing: _Listing, agents: Sequence[str]) -> list[SourceRef]:
    dated: list[tuple[int, SourceRef]] = []
    for agent in agents:
        fingerprints = Fingerprints(listing.catalog.adapter(agent))
        for source in listing.sources(agent):
            if source.role != "names" and not source.superseded:
                changed = fingerprints.of(source).newest_ns or _last_record(listing.catalog, source)
                dated.append((changed, source))
    return [source for _, source in sorted(dated, key=itemgetter(0), reverse=True)]


def _last_record(catalog: SourceCatalog, source: SourceRef) -> int:
    """Return when a source without files last changed, by its records, in nanoseconds."""
    if source.has_path:
        return 0
    sessions = catalog.assemble_sources(source.agent, [source]).sessions
    changed = (time_span(session)[1].timestamp() for session in sessions if session.listed)
    return int(max(changed, default=0) * 1e9)


def missing_sessions(
    registry: AdapterRegistry,
    catalog: SourceCatalog,
    unified_ids: Iterable[str],
    *,
    agent: str | None = None,
) -> tuple[str, ...]:
    """Return the unified ids (of one agent) that name no session, in the given order."""
    wanted: dict[str, set[str]] = {}
    split = [(name, split_unified_id(name) or ("", name)) for name in unified_ids]
    for _, (owner, native) in split:
        wanted.setdefault(owner, set()).add(native)
    missing = {
        owner: _missing(catalog, owner, natives) if registry.knows(owner) else natives
        for owner, natives in wanted.items()
        if agent in (None, owner)
    }
    return tuple(name for name, (owner, native) in split if native in missing.get(owner, ()))


def _missing(catalog: SourceCatalog, agent: str, natives: set[str]) -> set[str]:
    """Return the ids an agent does not have; its sources are read only if names do not suffice."""
    missing = natives - {source.session_id for source in catalog.sources(agent)}
    if missing:
        missing.difference_update(
            *(each.names() for each in catalog.assembly(agent).all_sessions())
        )
    return missing
