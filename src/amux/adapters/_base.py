"""The adapter protocol: how amux reads one agent's sessions.

An adapter never writes, never raises for bad data and never drops a line in silence. It is
stateless; what has changed, what is cached and who owns a shared call are questions for the layers
above.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from amux.host import Host
from amux.model.facts import Facts
from amux.model.message import SessionMessage
from amux.model.problems import Problem
from amux.model.reports import Persistence
from amux.model.texts import TextDoc
from amux.model.usage import Call

Want = Literal["usage", "facts", "texts", "all"]
"""Only what bears on cost; no bodies; bodies to search in (a text of megabytes may be cut);
everything. Facts are equal whatever is wanted, but that those of "usage" may leave out what
`USAGE_LEAVES_OUT` names: an adapter that knows no shorter way reads the same as for "facts"."""

USAGE_LEAVES_OUT: Final = (
    "trace", "first_prompt", "fallback_title", "name", "updated_at", "version", "models",
    "compactions", "notes", "problems", "problem_count", "raw",
)  # fmt: skip


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent can do; versions seen on this machine may raise or lower it."""

    session_persistence: Persistence
    can_resume: bool = False
    can_fork: bool = False
    records_usage: bool = True


class Bystander(msgspec.Struct, frozen=True):
    """Files below a root that are no sessions: a pattern of relative paths, what they are."""

    pattern: str
    what: str


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long the agent itself keeps a session before it deletes it, and what says so."""

    days: float
    reason: str


class AgentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Who the agent is. `revision` is bumped whenever the adapter reads something differently."""

    name: str
    label: str
    cli_command: str
    capabilities: Capabilities
    tier: Literal["spec", "extra", "plugin"] = "spec"
    evidence: str = ""  # how the format is known: seen (versions), documented, inferred
    revision: int = 1
    bystanders: tuple[Bystander, ...] = ()
    python_package: str | None = None  # the distribution of an agent that is installed by pip or uv


Role = Literal["session", "subagent", "names"]


class SourceRef:
    """One native file or database, known by name alone. It is never changed.

    `session_id` is the id the name promises, if it does. Sources of one `group` may hold copies of
    each other's history and titles for each other. `role` "names" marks a source that holds no
    session but says something about others (titles). A `fallback` is a copy the agent no longer
    writes (left by an upgrade, a lossy export): shown only where no other source has the session.
    `id_prefix` is how the session's id begins, where the name does not hold the whole of it.
    `beside` are further files its facts depend on, existing or not: a change of one is a change of
    the source. Where their names cannot be foreseen, a directory stands for every file below it.
    What belongs to a database (its write-ahead log) need not be named.

    `place` is the path as text. Of thousands of sources most are only looked at, and making a
    `Path` of each would take longer than that: `path` makes it when somebody asks.
    """

    __slots__ = (
        "_path", "agent", "archived", "beside", "fallback", "group", "id_prefix", "parent", "place",
        "role", "root", "session_id",
    )  # fmt: skip

    def __init__(
        self,
        *,
        agent: str,
        path: Path | str,
        root: Path,
        session_id: str | None = None,
        group: str = "",
        role: Role = "session",
        parent: str | None = None,  # the session whose sub-agent this is, when the place says so
        archived: bool = False,
        fallback: bool = False,
        id_prefix: str | None = None,
        beside: tuple[Path, ...] = (),
    ) -> None:
        self.agent = agent
        self.place = path if isinstance(path, str) else str(path)
        self._path = None if isinstance(path, str) else path
        self.root = root
        self.session_id = session_id
        self.group = group
        self.role: Role = role
        self.parent = parent
        self.archived = archived
        self.fallback = fallback
        self.id_prefix = id_prefix
        self.beside = beside

    @property
    def path(self) -> Path:
        """Where it lies."""
        if self._path is None:
            self._path = Path(self.place)
        return self._path

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.place.rpartition(os.sep)[2]

    def fields(self) -> dict[str, Any]:
        """What it is made of, the path as text."""
        kept = {name: getattr(self, name) for name in self.__slots__ if name[0] != "_"}
        return {"path": kept.pop("place"), **kept}

    def replace(self, **changes: Any) -> SourceRef:
        """The same but for some fields."""
        return SourceRef(**{**self.fields(), **changes})

    def __eq__(self, other: object) -> bool:
        """Whether all fields are equal."""
        return isinstance(other, SourceRef) and self.fields() == other.fields()

    def __hash__(self) -> int:
        """By the path."""
        return hash(self.place)

    def __repr__(self) -> str:
        """As it is made."""
        said = ", ".join(f"{name}={value!r}" for name, value in self.fields().items())
        return f"SourceRef({said})"


def has_bodies(want: Want) -> bool:
    """Whether messages are wanted at all."""
    return want in {"texts", "all"}


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Begins one session within a source; what follows belongs to it until the next head."""

    session_id: str


Item = Head | SessionMessage | Call | Problem | Facts
"""What `read` yields. Per session: Head, then messages (unless only facts are wanted) and calls as
they settle, then Facts. Problems may come anywhere. Facts are equal whatever is wanted and hold the
calls once more."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """How to start the agent; never run by an adapter."""

    argv: tuple[str, ...]
    cwd: str | None = None


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far an append-only source was read: `state` holds all that stands before `offset`."""

    offset: int  # the end of a whole line
    state: bytes


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What a source says without bodies, and from where it can be read on (None: from no place)."""

    facts: tuple[Facts, ...]
    problems: tuple[Problem, ...] = ()  # those that concern no session of it
    progress: Progress | None = None


@runtime_checkable
class Resumable(Protocol):
    """An adapter that can go on reading where it stopped (optional)."""

    def read_on(
        self, source: SourceRef, *, want: Literal["usage", "facts"], progress: Progress | None
    ) -> Reading:
        """What `read` tells, touching only the bytes behind `progress`; None: the whole source."""
        ...


class ScannedTexts(NamedTuple):
    """The sessions of a source, each with its texts, and from where the next scan may go on."""

    sessions: list[tuple[str, list[TextDoc]]]
    progress: Progress | None = None


@runtime_checkable
class TextScan(Protocol):
    """An adapter that knows a quick way to the texts of most sources (optional)."""

    def scan_texts(
        self, source: SourceRef, *, tools: bool, progress: Progress | None = None
    ) -> ScannedTexts | None:
        """The texts of a source, which are those of its messages; without `tools`, those spoken.

        None: not in the quick way; read it. With `progress`, which an earlier scan of the same
        kind has given, only what stands behind it: a message that might still have grown comes
        again, with at least the texts it had.
        """
        ...


@runtime_checkable
class TextCut(Protocol):
    """An adapter whose scans tell where messages lie, so that one can be read alone (optional)."""

    def cut_text(self, data: bytes, kind: int, *, tools: bool) -> SessionMessage | None:
        """The message of a spot, given its bytes; equal to that of `read` in all that is searched.

        That is its role, time and texts, and whether it is synthetic; without `tools`, it may lack
        what its tools were given. None: it is not there.
        """
        ...


@runtime_checkable
class NativeSearch(Protocol):
    """An adapter whose agent keeps a full-text index of its own (optional)."""

    def native_search(
        self, root: Path, terms: Sequence[str], *, limit: int
    ) -> Iterator[tuple[str, float]]:
        """Sessions of a database with a text that holds all terms: (id, score), best first.

        Terms are words of at least three lower-case ASCII letters, digits and underscores, to be
        found inside other words, too. None that has them may be missing, save those `unindexed`.
        """
        ...


@runtime_checkable
class PartlyIndexed(Protocol):
    """An adapter that knows what an index of its agent does not find (optional)."""

    def unindexed(self, root: Path) -> Iterator[str]:
        """Sessions of a database of which `native_search` is not sure; they have to be read."""
        ...


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a list may show, in the terms of its options; bounds are inclusive.

    Where `children` or `archived` are not to be shown they are to be counted. Without a `limit`
    everything that fits is shown; with a `bound`, nothing that comes behind it in the order of the
    list. `named` are sessions that sources speak of which were read already: they bear on them, so
    these have to be read, too, whether they fit or not.
    """

    since: datetime | None = None
    until: datetime | None = None
    cwd: str | None = None
    children: bool = True
    archived: bool = True
    descending: bool = True
    limit: int | None = None
    bound: datetime | None = None
    named: frozenset[str] = frozenset()


class Unread(NamedTuple):
    """How many sessions fit that were not read: sub-agents, archived ones, those further on."""

    children: int = 0
    archived: int = 0
    more: int = 0

    def plus(self, other: Unread) -> Unread:
        """Of two agents together."""
        return Unread(*(one + two for one, two in zip(self, other, strict=True)))


Chosen = Mapping[SourceRef, Sequence[str]]
"""Sessions by source; of a source with one session it is enough that it is there."""


class Choice(Protocol):
    """What has to be read for a list, found out step by step; the others are counted.

    Whatever bears on a session that may be shown is chosen with it: its sub-agents, those it shares
    calls or a title with. So is whatever a table or the head of a file does not tell for sure.
    """

    def began(self) -> Sequence[datetime]:
        """When those began that are shown for sure, unless others come before them; or nothing."""
        ...

    def first(self, bound: datetime | None = None) -> Chosen:
        """What to begin with.

        With a `bound` that was not known yet when the question was asked, what comes behind it may
        be left out.
        """
        ...

    def more(self, read: Sequence[tuple[SourceRef, Facts]]) -> Chosen:
        """What bears on that which was just read and was not chosen before; none: all is read."""
        ...

    def unread(self) -> Unread:
        """How many sessions fit that were never chosen."""
        ...


@runtime_checkable
class Queryable(Protocol):
    """An adapter that can tell what a list has to read without reading everything (optional).

    Problems of what is not read remain unsaid.
    """

    def tells(self, source: SourceRef) -> bool:
        """Whether a source, going by its name, can be chosen from; else all of it is read."""
        ...

    def choose(self, sources: Sequence[SourceRef], question: Question) -> Choice | None:
        """What to read of all sources that tell; None: everything, they do not tell after all."""
        ...

    def read_chosen(self, source: SourceRef, *, chosen: Sequence[str]) -> Iterator[Item]:
        """What `read` tells of some of its sessions when facts are wanted."""
        ...


@runtime_checkable
class Adapter(Protocol):
    """Reads one agent's sessions."""

    info: AgentInfo

    def roots(self, host: Host) -> Sequence[Path]:
        """Every place the agent may keep sessions, existing or not; touches no disk."""
        ...

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """Sources below a root, by name alone; `cwd` allows (not obliges) to narrow the walk."""
        ...

    def read(
        self, source: SourceRef, *, want: Want, only: str | None = None, until: int | None = None
    ) -> Iterator[Item]:
        """Stream a source. `only`: one session of it. `until`: stop before this trace key."""
        ...

    def command(
        self,
        action: Literal["new", "resume", "fork"],
        *,
        session_id: str | None = None,
        prompt: str | None = None,
        cwd: str | None = None,
        version: str | None = None,
    ) -> Command | None:
        """Argv to start, resume or fork; None when the agent (of that version) cannot."""
        ...
