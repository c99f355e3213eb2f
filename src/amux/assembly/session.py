"""Sessions as one source records them, and assembled from all their sources.

A session can have several sources: a rewound Codex thread has a second file, an archived file may
exist twice, and the directory of the specification may hold the same id as the agent's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from amux.adapters._base import SourceRef
from amux.model.facts import Facts, Kind
from amux.model.ids import unified_id
from amux.model.problems import Problem
from amux.model.trace import Trace, count_messages
from amux.model.usage import Call


@dataclass(slots=True, frozen=True)
class SourceSession:
    """One session as one source records it."""

    facts: Facts
    source: SourceRef
    file_time: datetime | None = None  # mtime of the file, set if the facts have no date


class SourceSlice(msgspec.Struct, frozen=True, array_like=True):
    """The messages of one session within one source, up to a trace key."""

    source: SourceRef
    session_id: str
    until: int | None = None


class MessageSources(msgspec.Struct, frozen=True, array_like=True):
    """The sources of one session's messages, without sub-agents; referenced history comes first."""

    session_id: str
    slices: tuple[SourceSlice, ...]
    in_fragments: bool = False  # several sources may contain the same message

    @property
    def is_whole(self) -> bool:
        """Whether the messages are all messages that one source has for one session."""
        return len(self.slices) == 1 and self.slices[0].until is None


@dataclass(slots=True, frozen=True)
class IgnoredCall:
    """A record of a call that another session counts."""

    call: Call
    owner: str  # unified id of the session that counts it


@dataclass(slots=True, eq=False)
class AssembledSession:
    """One session with all its sources; `assemble` fills in its fields step by step."""

    agent: str
    session_id: str
    sources: list[SourceSession]
    primary: SourceSession  # the source whose conversation is shown
    disambiguator: str = ""  # separates sessions with equal ids: the parent or namespace
    fragments: list[SourceSession] = field(default_factory=list[SourceSession])  # shown, in order
    kind: Kind = "session"
    parent: str | None = None
    title: str = ""
    first_prompt: str | None = None
    inherited_cwd: str | None = None  # the working directory that another source notes
    trace: Trace = field(default_factory=Trace)  # includes history kept by reference
    calls: list[Call] = field(default_factory=list[Call])  # billed to this session, each once
    ignored: list[IgnoredCall] = field(default_factory=list[IgnoredCall])
    children: list[AssembledSession] = field(default_factory=list["AssembledSession"])
    problems: list[Problem] = field(default_factory=list[Problem])  # found while assembling

    @property
    def facts(self) -> Facts:
        """Return the facts of the source that is shown."""
        return self.primary.facts

    @property
    def attributed(self) -> bool:
        """Whether its calls belong to a conversation."""
        return self.facts.attributed

    @property
    def archived(self) -> bool:
        """Whether all its sources are archived, except for superseded copies."""
        return all(part.facts.archived for part in _without_superseded(self.sources))

    @property
    def listed(self) -> bool:
        """Whether a list may show it; archived sessions and sub-agents appear only on request."""
        return self.facts.attributed and self.facts.addressable

    @property
    def sort_key(self) -> bytes:
        """Return the unique key that orders sessions a list finds equal: id, then disambiguator.

        Bytes have the order of the characters, so SQLite sorts them equally.
        """
        name = unified_id(self.agent, self.session_id)
        return f"{name}\0{self.disambiguator}".encode("utf-8", "surrogatepass")

    def names(self) -> tuple[str, ...]:
        """Return every id it can be found by; an alias may be unique where the id is not."""
        aliases = (alias for part in self.sources for alias in part.facts.aliases)
        return tuple(dict.fromkeys((self.session_id, *aliases)))

    def all_problems(self) -> tuple[Problem, ...]:
        """Return the problems of all its sources, then those found while assembling."""
        read = [problem for part in self.sources for problem in part.facts.problems]
        return (*read, *self.problems)

    def with_children(self) -> Iterable[AssembledSession]:
        """Yield this session and all sub-agents below it."""
        yield self
        for child in self.children:
            yield from child.with_children()


class SessionNames:
    """Finds sessions by their names. If several have a name, the one nearest to another is meant.

    An id takes precedence over an alias or the id of a log.
    """

    def __init__(self, sessions: Sequence[AssembledSession]) -> None:
        self._by_name: dict[str, list[AssembledSession]] = {}
        for session in sessions:
            self._by_name.setdefault(session.session_id, []).append(session)
        ids = set(self._by_name)
        for session in sessions:
            for part in session.sources:
                for alias in (*part.facts.aliases, part.facts.rollout):
                    if alias and alias not in ids:
                        self._by_name.setdefault(alias, [session])

    def find(self, name: str | None, near: AssembledSession) -> AssembledSession | None:
        """Return the session that another one calls by a name; None if there is none."""
        found = self._by_name.get(name or "", ())
        if len(found) > 1:
            return min(found, key=lambda each: _distance(each, near))
        return found[0] if found else None


def _distance(one: AssembledSession, other: AssembledSession) -> tuple[bool, bool]:
    """Return how far apart two sessions are: in sources of other groups, in another namespace."""
    groups = {part.source.group for part in one.sources}
    is_apart = groups.isdisjoint(part.source.group for part in other.sources)
    return is_apart, one.facts.namespace != other.facts.namespace


def unique_aliases(sessions: Iterable[AssembledSession]) -> dict[AssembledSession, str]:
    """Return, for sessions that share their id, the name that is unique to each, or else the id."""
    by_id: dict[str, list[AssembledSession]] = {}
    for session in sessions:
        by_id.setdefault(session.session_id, []).append(session)
    found: dict[AssembledSession, str] = {}
    for group in by_id.values():
        if len(group) > 1:
            uses = Counter(name for session in group for name in session.names())
            for session in group:
                unique = (name for name in session.names() if uses[name] == 1)
                found[session] = next(unique, session.session_id)
    return found


def join_sources(agent: str, parts: Iterable[SourceSession]) -> list[AssembledSession]:
    """Group sources by session and select the primary source of each."""
    groups: dict[tuple[str, ...], list[SourceSession]] = {}
    superseded: list[SourceSession] = []
    for part in parts:
        if part.source.superseded:
            superseded.append(part)
        else:
            groups.setdefault(_group_key(part), []).append(part)
    by_id = {key[-1]: group for key, group in groups.items()}
    nearby = {
        (part.source.group, key[-1]): group for key, group in groups.items() for part in group
    }
    for part in superseded:  # such a copy may not record that it is a sub-agent
        id = part.facts.session_id
        group = nearby.get((part.source.group, id))
        if group is None and not part.facts.namespace:
            group = by_id.get(id)
        (groups.setdefault(_group_key(part), []) if group is None else group).append(part)
    return [_join(agent, group, key) for key, group in groups.items()]


def _group_key(part: SourceSession) -> tuple[str, ...]:
    facts = part.facts
    if not facts.attributed:
        return ("unattributed", str(part.source.path), facts.session_id)
    if facts.kind == "subagent":  # their short ids are unique only below the parent
        namespace = (facts.namespace,) if facts.namespace else ()
        return ("subagent", facts.parent or "", *namespace, facts.session_id)
    return ("session", facts.namespace, facts.session_id)


def _join(agent: str, parts: list[SourceSession], key: tuple[str, ...]) -> AssembledSession:
    current = parts[0] if len(parts) == 1 else _primary(parts)
    facts = current.facts
    return AssembledSession(
        agent=agent,
        session_id=facts.session_id,
        sources=parts,
        primary=current,
        disambiguator="\0".join(key[:-1]),
        fragments=_fragments(parts) if facts.fragment and len(parts) > 1 else [current],
        kind=facts.kind,
        parent=None if facts.parent == facts.session_id else facts.parent,
    )


def _without_superseded(parts: list[SourceSession]) -> list[SourceSession]:
    """Return the sources the agent still writes, or all of them if there is none."""
    return [part for part in parts if not part.source.superseded] or parts


def _primary(parts: list[SourceSession]) -> SourceSession:
    """Return the continued log of a rewound session, or else the copy with the most messages."""
    parts = [part for part in _without_superseded(parts) if part.facts.trace] or parts
    own = {part.facts.rollout for part in parts} - {None}
    continued = [part for part in parts if part.facts.prefix and part.facts.prefix.of in own]
    if continued:
        return max(continued, key=lambda part: (_created(part), str(part.source.path)))
    return max(
        parts,
        key=lambda part: (
            count_messages(part.facts.trace.kinds),
            not part.facts.archived,
            str(part.source.path),
        ),
    )


def _fragments(parts: list[SourceSession]) -> list[SourceSession]:
    """Return the fragments of a conversation in order, without copies that add no line."""
    fragments = [part for part in _without_superseded(parts) if part.facts.fragment]
    richest_first = sorted(
        fragments,
        key=lambda part: (count_messages(part.facts.trace.kinds), str(part.source.path)),
        reverse=True,
    )
    shown: list[SourceSession] = []
    seen: set[int] = set()
    for part in richest_first:
        keys = set(part.facts.trace.key_list())
        if not keys <= seen:
            shown.append(part)
            seen |= keys
    return sorted(shown, key=lambda part: (_created(part), str(part.source.path)))


def _created(part: SourceSession) -> float:
    return part.facts.created_at.timestamp() if part.facts.created_at else 0.0


_EPOCH = datetime.fromtimestamp(0, UTC)


def time_span(session: AssembledSession) -> tuple[datetime, datetime]:
    """Return when it began and last changed, from its records or else from the file's mtime."""
    created = [part.facts.created_at for part in session.sources if part.facts.created_at]
    updated = [part.facts.updated_at for part in session.sources if part.facts.updated_at]
    first = min(created) if created else session.primary.file_time or _EPOCH
    return first, max([*updated, first])
