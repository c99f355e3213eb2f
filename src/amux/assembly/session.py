"""Parts and joined sessions: what one source says of a session, and all that belongs to one.

The same session may lie in several sources: a rewound Codex thread has a second file, an archived
file may exist twice, the specification's place and the real one may hold the same id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
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
    """One session as one source tells it."""

    facts: Facts
    source: SourceRef
    file_time: datetime | None = None  # mtime of the file, set where the facts tell no date


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


@dataclass(slots=True, frozen=True)
class IgnoredCall:
    """A record of a call that is counted elsewhere."""

    call: Call
    owner: str  # unified id of the session that counts it


@dataclass(slots=True, eq=False)
class AssembledSession:
    """One session with everything that belongs to it. Filled step by step by `assemble`."""

    agent: str
    session_id: str
    sources: list[SourceSession]
    primary: SourceSession  # the part whose conversation is shown
    disambiguator: str = ""  # separates sessions with equal ids: the parent, or the namespace
    fragments: list[SourceSession] = field(default_factory=list[SourceSession])  # shown as well
    kind: Kind = "session"
    parent: str | None = None
    title: str = ""
    first_prompt: str | None = None
    inherited_cwd: str | None = None  # where another source says it was started
    trace: Trace = field(default_factory=Trace)  # the prefix kept by reference included
    calls: list[Call] = field(default_factory=list[Call])  # billed to this session, each once
    ignored: list[IgnoredCall] = field(default_factory=list[IgnoredCall])
    children: list[AssembledSession] = field(default_factory=list["AssembledSession"])
    problems: list[Problem] = field(default_factory=list[Problem])  # found while joining

    @property
    def facts(self) -> Facts:
        """The facts of the part that is shown."""
        return self.primary.facts

    @property
    def attributed(self) -> bool:
        """Whether its calls belong to a conversation at all."""
        return self.facts.attributed

    @property
    def archived(self) -> bool:
        """Archived everywhere it lies; copies left behind have no say."""
        return all(part.facts.archived for part in _without_superseded(self.sources))

    @property
    def listed(self) -> bool:
        """Whether a list may show it (archived sessions and sub-agents only on request)."""
        return self.facts.attributed and self.facts.addressable

    @property
    def sort_key(self) -> bytes:
        """What sessions go by that a list finds equal: their ids, then what tells these apart.

        No two have the same. Bytes are in the order of the characters, and so everybody can
        compare them, a database too.
        """
        name = unified_id(self.agent, self.session_id)
        return f"{name}\0{self.disambiguator}".encode("utf-8", "surrogatepass")

    def names(self) -> tuple[str, ...]:
        """Every id it can be found by: of two sessions with one id, an alias names just one."""
        aliases = (alias for part in self.sources for alias in part.facts.aliases)
        return tuple(dict.fromkeys((self.session_id, *aliases)))

    def with_children(self) -> Iterable[AssembledSession]:
        """This session and all sub-agents below it."""
        yield self
        for child in self.children:
            yield from child.with_children()


def unique_aliases(sessions: Iterable[AssembledSession]) -> dict[AssembledSession, str]:
    """Of sessions that share their id, the name that each of them has alone."""
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
    """Bring the parts of each session together, the richest or newest one in front."""
    groups: dict[tuple[str, ...], list[SourceSession]] = {}
    superseded: list[SourceSession] = []
    for part in parts:
        if part.source.superseded:
            superseded.append(part)
        else:
            groups.setdefault(_group_key(part), []).append(part)
    by_id = {key[-1]: group for key, group in groups.items()}
    for part in superseded:  # such a copy may not know that it is a sub-agent's
        group = by_id.get(part.facts.session_id)
        (groups.setdefault(_group_key(part), []) if group is None else group).append(part)
    return [_join(agent, group, key) for key, group in groups.items()]


def _group_key(part: SourceSession) -> tuple[str, ...]:
    facts = part.facts
    if not facts.attributed:
        return ("unattributed", str(part.source.path), facts.session_id)
    if facts.kind == "subagent":  # short ids: unique only below their parent
        return ("subagent", facts.parent or "", facts.session_id)
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
    """The parts the agent still writes; all of them when there is none."""
    return [part for part in parts if not part.source.superseded] or parts


def _primary(parts: list[SourceSession]) -> SourceSession:
    """The continued log of a rewound session, else the copy that holds most."""
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
    """The fragments a conversation consists of, in order; copies that add nothing are left out."""
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
    """When it began and when it last changed: from its records, else from the file."""
    created = [part.facts.created_at for part in session.sources if part.facts.created_at]
    updated = [part.facts.updated_at for part in session.sources if part.facts.updated_at]
    first = min(created) if created else session.primary.file_time or _EPOCH
    return first, max([*updated, first])
