"""Sessions to be searched, from rows of the index: nothing is assembled or priced."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from amux.adapters._base import Role, SourceRef
from amux.assembly.assemble import Assembly, message_sources
from amux.assembly.cost import CostCalculator
from amux.assembly.session import AssembledSession, MessageSources
from amux.index.codec import pack, unpack
from amux.index.database import IndexDatabase
from amux.index.errors import IndexChangedError, IndexDecodeError
from amux.index.rows.query import NameRow
from amux.model.session import SessionSummary
from amux.model.trace import key_of

_JSON: Final = b"{"  # the first byte of a summary, unless a name in it is not valid Unicode


class SearchRow(NamedTuple):
    """The columns that filters and ranking need; see `results.SessionRow`."""

    row: int
    agent: str
    id: str
    sort_key: bytes
    names: str
    created: int
    updated: int
    usd: float
    cwd: str | None
    models: str
    title: str
    keys: bytes


class NamedSession(NamedTuple):
    """The names of a session, its id first, and its title."""

    agent: str
    names: Sequence[str]
    title: str


def named_sessions(rows: Sequence[NameRow]) -> list[NamedSession] | None:
    """Return rows as sessions; None if one has a name that a column cannot hold unchanged."""
    if any(first != _JSON for *_, first in rows):
        return None
    return [NamedSession(agent, names.split("\n"), title) for agent, names, title, _ in rows]


def text_unit_key(agent: str, path: str, session_id: str) -> int:
    """Return the key of a text unit: one session in one source."""
    return key_of(f"{agent}\n{path}\n{session_id}")


def search_rows(database: IndexDatabase, agents: Sequence[str]) -> list[SearchRow]:
    """Return every session of some agents that can be searched."""
    holes = ", ".join("?" * len(agents))
    with database.guarded() as connection:
        rows = connection.execute(
            "SELECT rowid, agent, id, sort_key, names, created, updated, usd, cwd, models, title,"  # noqa: S608 - placeholders only
            f" keys FROM session WHERE agent IN ({holes}) AND message_sources != x''",
            tuple(agents),
        )
        return list(map(SearchRow._make, rows))


def agents_with_rows(database: IndexDatabase) -> set[str]:
    """Return the agents that have any session."""
    with database.guarded() as connection:
        return {agent for (agent,) in connection.execute("SELECT DISTINCT agent FROM session")}


_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_ANY: Final = msgspec.msgpack.Decoder(Any)
_EMPTY: Final[tuple[object, ...]] = (None, False, "", [])


def encode_message_sources(assembly: Assembly, session: AssembledSession) -> tuple[bytes, bytes]:
    """Return the encoded message sources of a session and its sub-agents, and their keys.

    There are no keys if messages lie in several sources or in a part of one.
    """
    conversations = [message_sources(assembly, member) for member in session.with_children()]
    plain = msgspec.to_builtins(conversations, enc_hook=_to_plain)
    for _, slices, *_ in plain:
        for part in slices:
            part[0] = {name: value for name, value in part[0].items() if value not in _EMPTY}
    is_simple = all(each.is_whole for each in conversations)
    keys = [key for each in conversations for key in keys_of(session.agent, each)]
    return pack(plain), array("q", keys if is_simple else ()).tobytes()


def keys_of(agent: str, conversation: MessageSources) -> list[int]:
    """Return the text unit keys of the sources of some messages."""
    return [
        text_unit_key(agent, each.source.location, each.session_id) for each in conversation.slices
    ]


def _decode_message_sources(data: bytes) -> list[MessageSources]:
    try:
        return msgspec.convert(unpack(data, _ANY), list[MessageSources], dec_hook=_from_plain)
    except msgspec.MsgspecError as error:
        raise IndexDecodeError(str(error)) from error


class _StoredSourceRef(msgspec.Struct, kw_only=True):
    """The fields of a source that reading its messages needs, paths as texts."""

    agent: str
    path: str
    root: str
    session_id: str | None = None
    group: str = ""
    role: Role = "session"
    parent: str | None = None
    archived: bool = False
    superseded: bool = False
    id_prefix: str | None = None


def _to_plain(value: object) -> object:
    if not isinstance(value, SourceRef):
        return str(value)
    names = (name for name in _StoredSourceRef.__struct_fields__ if name != "path")
    return {"path": value.location, **{name: getattr(value, name) for name in names}}


def _from_plain(kind: type, value: object) -> SourceRef:
    del kind  # SourceRef, the only type that msgspec does not know
    fields = msgspec.structs.asdict(msgspec.convert(value, _StoredSourceRef))
    root = Path(fields.pop("root"))
    return SourceRef(**fields, root=root)


def annotated(
    summary: SessionSummary, names: Sequence[str], costs: CostCalculator
) -> SessionSummary:
    """Return a stored summary with its current tags and star."""
    tags = costs.annotations.tags(summary.agent, names)
    starred = costs.annotations.is_starred(summary.agent, names)
    if not tags and not starred:
        return summary
    return msgspec.structs.replace(summary, tags=tags, starred=starred)


class StoredSession:
    """A row as a `SearchableSession`, and as its own `SessionFields`.

    `last_change` is `updated_at` in microseconds of the Unix time; `usd` is -1 if it is unknown.
    """

    def __init__(self, row: SearchRow, database: IndexDatabase, costs: CostCalculator) -> None:
        self._row = row
        self._database = database
        self._costs = costs
        self.agent = row.agent
        self.unified_id = f"{row.agent}:{row.id}"
        self.title = row.title
        self.cwd = row.cwd
        self.last_change = row.updated
        self.sort_key = row.sort_key
        self.usd = row.usd

    @property
    def fields(self) -> StoredSession:
        """The fields that are available without reading sources."""
        return self

    @property
    def created_at(self) -> datetime:
        """The time of the first message."""
        return _EPOCH + timedelta(microseconds=self._row.created)

    @property
    def updated_at(self) -> datetime:
        """The time of the last change."""
        return _EPOCH + timedelta(microseconds=self._row.updated)

    @property
    def models(self) -> tuple[str, ...]:
        """All models that were used."""
        return tuple(filter(None, self._row.models.split("\n")))

    @property
    def tags(self) -> tuple[str, ...]:
        """The current tags."""
        return self._costs.annotations.tags(self._row.agent, self._row.names.split("\n"))

    @property
    def starred(self) -> bool:
        """Whether the session has a star."""
        return self._costs.annotations.is_starred(self._row.agent, self._row.names.split("\n"))

    @property
    def keys(self) -> Sequence[int] | None:
        """The keys of its text units, if each of them holds whole conversations; else None."""
        return array("q", self._row.keys) if self._row.keys else None

    def summary(self) -> SessionSummary:
        """Return the summary with the current tags and star."""
        if not self._costs.annotations:
            return self._summary
        return annotated(self._summary, self._row.names.split("\n"), self._costs)

    def message_sources(self) -> Sequence[MessageSources]:
        """Return the sources of its own messages, then those of its sub-agents."""
        return self._message_sources

    @cached_property
    def _summary(self) -> SessionSummary:
        from amux.index.rows.session_row import decode_summary

        with self._database.guarded():
            return decode_summary(self._whole[0])

    @cached_property
    def _message_sources(self) -> list[MessageSources]:
        with self._database.guarded():
            return _decode_message_sources(self._whole[1])

    @cached_property
    def _whole(self) -> tuple[bytes, bytes]:
        row = self._row
        with self._database.guarded() as connection:
            found: tuple[bytes, bytes] | None = connection.execute(
                "SELECT body, message_sources FROM session"
                " WHERE rowid = ? AND agent = ? AND id = ?",
                (row.row, row.agent, row.id),
            ).fetchone()
        if found is None:
            raise IndexChangedError("another process has replaced the rows")
        return found


class StoredSessions:
    """Caches the searchable sessions of some agents until the rows change."""

    def __init__(self) -> None:
        self._loaded_for: tuple[object, ...] = ()
        self._sessions: list[StoredSession] = []

    def sessions(
        self, database: IndexDatabase, agents: Sequence[str], costs: CostCalculator
    ) -> list[StoredSession]:
        """Return the current sessions; the list is the same object until they change."""
        now = (database, database.version(), tuple(agents), costs)
        if now != self._loaded_for:
            self._sessions = [
                StoredSession(row, database, costs) for row in search_rows(database, agents)
            ]
            self._loaded_for = now
        return self._sessions
