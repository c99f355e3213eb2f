"""The adapter protocol: how amux reads one agent's sessions.

An adapter never writes, never raises an exception for bad data and never drops a line silently. It
is stateless: the layers above decide which sources have changed, what is cached and which session
owns a shared call.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from string import ascii_letters, digits
from typing import Any, Final, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from amux.host import Host
from amux.model.facts import Facts
from amux.model.message import SessionMessage
from amux.model.problems import Problem
from amux.model.reports import Persistence
from amux.model.texts import TextDoc
from amux.model.usage import Call

Want = Literal["facts", "texts", "all"]
"""How much of a source to read. "facts": everything but message bodies. "texts": also bodies, to
search in; a text of megabytes may be truncated. "all": everything. Facts do not depend on it."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """Features of an agent; the installed version may have more or fewer of them."""

    session_persistence: Persistence
    can_resume: bool = False
    can_fork: bool = False
    records_usage: bool = True


class IgnoredFiles(msgspec.Struct, frozen=True):
    """Files below a root that hold no sessions: a glob of relative paths and a description."""

    pattern: str
    what: str


class InjectedText(msgspec.Struct, frozen=True):
    """The beginning of a text that the agent writes with the role of the person.

    `opening` is compared literally, or as a regular expression if `regex` is true; white space
    before it is ignored. `seen` names the agent versions that wrote it, or the source of the rule.
    """

    opening: str
    seen: str
    regex: bool = False


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """The age at which the agent deletes a session itself, and the setting that says so."""

    days: float
    reason: str


class AgentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Describes the agent and its adapter.

    Raise `revision` whenever the adapter reads something differently: it invalidates the index.
    """

    name: str
    label: str
    cli_command: str
    capabilities: Capabilities
    tier: Literal["spec", "extra", "plugin"] = "spec"
    evidence: str = ""  # the source of the format: seen (versions), documented, inferred
    revision: int = 1
    ignored_files: tuple[IgnoredFiles, ...] = ()
    injected_texts: tuple[InjectedText, ...] = ()  # no title, prompt or turn begins with one
    python_package: str | None = None  # the distribution, if pip or uv installs the agent
    bystanders: tuple[IgnoredFiles, ...] = ()  # the name of `ignored_files` before 0.2
    indexable: bool = False  # equal sources are read equally as long as `revision` is the same

    def __post_init__(self) -> None:
        """Warn of the old name."""
        if self.bystanders:
            warn_renamed("AgentInfo.bystanders", "ignored_files")


Role = Literal["session", "subagent", "names"]

_SCHEME: Final = frozenset(ascii_letters + digits + "+-.")
_SHORTEST_SCHEME: Final = 2
_RENAMED_FIELDS: Final = {"place": "location", "beside": "companions", "fallback": "superseded"}


class SourceRef:
    """A file or database that holds sessions, described by its name alone. Immutable.

    `session_id` is the id of the only session, if the file name contains it; `id_prefix` is the
    beginning of that id, if the name contains only a part. Sources of the same `group` may hold
    copies of each other's history, and titles for each other's sessions. The `role` "names" is
    that of a source without a session of its own, such as a list of titles. A `superseded` source
    is a copy that the agent no longer writes (a leftover of an upgrade, a lossy export); it is used
    only if no other source has the session. `companions` are further files, existing or not, that
    the facts depend on: a change to one of them counts as a change to the source. If their names
    cannot be predicted, a directory stands for every file below it. If only the content of the
    source names them, `companions` may be a function: it is called whenever the files are needed,
    never while sources are listed. The write-ahead log and the journal of a database need not be
    listed.

    A source need not be a file. Its `path` is then a text with a scheme, such as
    `postgresql://host/database#thread`, and only the adapter accesses it (see `Fingerprinted`).

    `location` is the path as a string. Most of thousands of sources are never opened, and creating
    a `Path` for each would be slow, so `path` creates it on first use.
    """

    __slots__ = (
        "_companions", "_path", "agent", "archived", "group", "id_prefix", "location", "parent",
        "role", "root", "session_id", "superseded",
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
        parent: str | None = None,  # the session that started this sub-agent, if the path says so
        archived: bool = False,
        superseded: bool = False,
        id_prefix: str | None = None,
        companions: tuple[Path, ...] | Callable[[], tuple[Path, ...]] = (),
        **renamed: Any,  # `fallback` and `beside`, the names before 0.2
    ) -> None:
        for old, value in renamed.items():
            match renamed_field(old):
                case "superseded":
                    superseded = value
                case "companions":
                    companions = value
                case _:
                    raise TypeError(f"SourceRef has no field `{old}`")
        self.agent = agent
        self.location = path if isinstance(path, str) else str(path)
        self._path = None if isinstance(path, str) else path
        self.root = root
        self.session_id = session_id
        self.group = group
        self.role: Role = role
        self.parent = parent
        self.archived = archived
        self.superseded = superseded
        self.id_prefix = id_prefix
        self._companions = companions

    @property
    def path(self) -> Path:
        """The location of the file or database."""
        if self._path is None:
            self._path = Path(self.location)
        return self._path

    @property
    def has_path(self) -> bool:
        """Whether the source is a file or a directory; only its adapter accesses any other one."""
        return is_path(self.location)

    @property
    def companions(self) -> tuple[Path, ...]:
        """The further files that the facts depend on, as the source names them at present."""
        return self._companions() if callable(self._companions) else self._companions

    def __getattr__(self, name: str) -> Any:
        """Return a field by the name it had before 0.2."""
        new = renamed_field(name)
        if new is None:
            raise AttributeError(f"SourceRef has no field `{name}`")
        return getattr(self, new)

    @property
    def name(self) -> str:
        """The last component of the path."""
        return self.location.rpartition(os.sep)[2]

    def fields(self) -> dict[str, Any]:
        """Return the constructor arguments, with the path as a string."""
        kept = {name: getattr(self, name) for name in self.__slots__ if name[0] != "_"}
        return {"path": kept.pop("location"), **kept, "companions": self.companions}

    def replace(self, **changes: Any) -> SourceRef:
        """Return a copy with some fields replaced."""
        return SourceRef(**{**self.fields(), **changes})

    def __eq__(self, other: object) -> bool:
        """Return whether all fields are equal."""
        return isinstance(other, SourceRef) and self.fields() == other.fields()

    def __hash__(self) -> int:
        """Return the hash of the path."""
        return hash(self.location)

    def __repr__(self) -> str:
        """Return the constructor call that creates an equal reference."""
        said = ", ".join(f"{name}={value!r}" for name, value in self.fields().items())
        return f"SourceRef({said})"


def warn_renamed(old: str, new: str, *, depth: int = 3) -> None:
    """Warn the caller `depth` calls up that a name of the protocol has changed."""
    warnings.warn(f"{old} is now `{new}`", DeprecationWarning, stacklevel=depth)


def renamed_field(old: str) -> str | None:
    """Return the new name of a field of `SourceRef`, with a warning; None for any other name."""
    new = _RENAMED_FIELDS.get(old)
    if new is not None:
        warn_renamed(f"SourceRef.{old}", new, depth=4)
    return new


def is_path(location: str) -> bool:
    """Return whether a location is a path, that is, has no scheme; a drive letter is no scheme."""
    scheme, found, _ = location.partition(":/")  # a `Path` has lost the second slash
    return not found or len(scheme) < _SHORTEST_SCHEME or not _SCHEME.issuperset(scheme)


def has_bodies(want: Want) -> bool:
    """Return whether `want` includes messages."""
    return want in {"texts", "all"}


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Begins one session within a source; all items up to the next head belong to it."""

    session_id: str


Item = Head | SessionMessage | Call | Problem | Facts
"""The items that `read` yields. For each session: a Head, then its messages (if `want` includes
bodies) and its calls as soon as they are final, then its Facts, which contain the calls again.
Problems may come at any point."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A command line that starts the agent. Adapters never run it."""

    argv: tuple[str, ...]
    cwd: str | None = None


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A point at which reading of an append-only source can be resumed.

    `state` is the adapter's own summary of all bytes before `offset`.
    """

    offset: int  # the end of a whole line
    state: bytes


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a source without bodies; `checkpoint` is None if reading cannot continue."""

    facts: tuple[Facts, ...]
    problems: tuple[Problem, ...] = ()  # problems that concern no session of the source
    checkpoint: Checkpoint | None = None
    progress: Checkpoint | None = None  # the name of `checkpoint` before 0.2

    def __post_init__(self) -> None:
        """Warn of the old name."""
        if self.progress is not None:
            warn_renamed("Reading.progress", "checkpoint")


@runtime_checkable
class Resumable(Protocol):
    """Optional: an adapter that can continue reading where it stopped."""

    def resume_read(self, source: SourceRef, *, checkpoint: Checkpoint | None) -> Reading:
        """Return the facts; read only the bytes after `checkpoint` (None: all bytes)."""
        ...


@runtime_checkable
class Fingerprinted(Protocol):
    """An adapter that knows whether its sources have changed (optional).

    amux then asks it instead of the file system, touches no root and no source of the agent, and
    forks no process to read them.
    """

    def fingerprint(self, source: SourceRef | Path) -> bytes:
        """Return bytes that differ whenever the content of a source does; b"" if that is unknown.

        A `Path` is a root, and the bytes stand for all sources below it; for b"", each source is
        asked about. A source with b"" is read whenever it is needed.
        """
        ...


class ExtractedTexts(NamedTuple):
    """The sessions of a source with their texts, and the point where the next scan continues."""

    sessions: list[tuple[str, list[TextDoc]]]
    checkpoint: Checkpoint | None = None


@runtime_checkable
class ExtractsTexts(Protocol):
    """Optional: an adapter that can extract the texts of most sources without a full read."""

    def extract_texts(
        self, source: SourceRef, *, tools: bool, checkpoint: Checkpoint | None = None
    ) -> ExtractedTexts | None:
        """Return the texts of all messages of a source; without `tools`, only the spoken ones.

        None means that the source needs a full read. With `checkpoint`, which must come from an
        earlier scan with the same `tools`, return only the texts after it. A message that may have
        grown since is returned again, with at least the texts it had.
        """
        ...


@runtime_checkable
class ReadsMessageAt(Protocol):
    """Optional: an adapter whose text scans locate messages, so that one can be read alone."""

    def read_message_at(self, data: bytes, kind: int, *, tools: bool) -> SessionMessage | None:
        """Return the message in the bytes at a location from a scan; None if there is none.

        It equals the message of `read` in all that search uses: role, time, texts and `synthetic`.
        Without `tools`, the input of its tool calls may be missing.
        """
        ...


@runtime_checkable
class NativeSearch(Protocol):
    """Optional: an adapter of an agent that has its own full-text index."""

    def native_search(
        self, root: Path, terms: Sequence[str], *, limit: int
    ) -> Iterator[tuple[str, float]]:
        """Yield `(session id, score)` of sessions with a text that contains all terms, best first.

        A term is a word of at least three lower-case ASCII letters, digits and underscores, and
        also matches inside other words. Every matching session must be yielded, except those that
        `not_in_native_index` returns.
        """
        ...


@runtime_checkable
class PartlyIndexed(Protocol):
    """Optional: an adapter that knows which sessions the agent's own index may miss."""

    def not_in_native_index(self, root: Path) -> Iterator[str]:
        """Yield the ids of sessions that `native_search` may miss; search has to read them."""
        ...


class ListFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The filter, order and limit of a list. Times are inclusive.

    If `children` or `archived` is false, such sessions are counted but not shown. Without a `limit`
    all matching sessions are shown. With a `bound`, no session after it in list order is shown.
    `named` contains the ids of sessions to which sources that were read already refer: these
    sessions have to be read as well, whether they match or not.
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


class SkippedCounts(NamedTuple):
    """Number of matching sessions that were not read: sub-agents, archived ones, and the rest."""

    children: int = 0
    archived: int = 0
    more: int = 0

    def plus(self, other: SkippedCounts) -> SkippedCounts:
        """Return the sum of two counts."""
        return SkippedCounts(*(one + two for one, two in zip(self, other, strict=True)))


SelectedSessions = Mapping[SourceRef, Sequence[str]]
"""Session ids to read, by source. For a source with a single session the ids do not matter."""


class Selection(Protocol):
    """Selects the sessions a list has to read, in rounds. The remaining sessions are counted.

    Every session that can affect a shown one is selected with it: its sub-agents, and sessions that
    share calls or a title with it. So is every session that a table or the head of a file does not
    describe completely.
    """

    def began(self) -> Sequence[datetime]:
        """Return the start times of sessions that are shown unless others precede them.

        The result may be empty.
        """
        ...

    def first(self, bound: datetime | None = None) -> SelectedSessions:
        """Return the first sessions to read.

        Sessions after `bound`, which may be stricter than that of the filter, can be omitted.
        """
        ...

    def more(self, read: Sequence[tuple[SourceRef, Facts]]) -> SelectedSessions:
        """Return further sessions that can affect those just read; empty when there are none."""
        ...

    def skipped(self) -> SkippedCounts:
        """Return the number of matching sessions that were never selected."""
        ...


@runtime_checkable
class Selective(Protocol):
    """Optional: an adapter that can determine what a list has to read without a full read.

    Problems in data that is not read are not reported.
    """

    def can_select(self, source: SourceRef) -> bool:
        """Return whether `select` supports a source, judged by its name; others are read whole."""
        ...

    def select(self, sources: Sequence[SourceRef], list_filter: ListFilter) -> Selection | None:
        """Select from all supported sources; None if all of them have to be read after all."""
        ...

    def read_selected(self, source: SourceRef, *, chosen: Sequence[str]) -> Iterator[Item]:
        """Yield the items of some sessions, equal to those of `read` with `want="facts"`."""
        ...


@runtime_checkable
class Adapter(Protocol):
    """Reads one agent's sessions."""

    info: AgentInfo

    def roots(self, host: Host) -> Sequence[Path]:
        """Return every directory the agent may store sessions in, without accessing the disk."""
        ...

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """Yield the sources below a root, judged by name alone; `cwd` may be used to skip some."""
        ...

    def read(
        self, source: SourceRef, *, want: Want, only: str | None = None, until: int | None = None
    ) -> Iterator[Item]:
        """Yield the items of a source, or those of one session (`only`) before a key (`until`)."""
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
        """Return the command line of an action; None if the agent (of that version) has none."""
        ...
