"""Sessions to be found, from rows of the index: nothing is assembled, nothing priced."""

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
from amux.model.session import SessionSummary
from amux.model.trace import key_of


class SearchRow(NamedTuple):
    """What filters and ranking look at; see `results.SessionRow`."""

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


def text_unit_key(agent: str, path: str, session_id: str) -> int:
    """A number for what one source says of one session."""
    return key_of(f"{agent}\n{path}\n{session_id}")


def search_rows(database: IndexDatabase, agents: Sequence[str]) -> list[SearchRow]:
    """Every session of some agents that may be found."""
    marks = ", ".join("?" * len(agents))
    with database.guarded() as connection:
        rows = connection.execute(
            "SELECT rowid, agent, id, tie, names, created, updated, usd, cwd, models, title, keys"  # noqa: S608 - question marks only
            f" FROM session WHERE agent IN ({marks}) AND places != x''",
            tuple(agents),
        )
        return list(map(SearchRow._make, rows))


def agents_with_rows(database: IndexDatabase) -> set[str]:
    """The agents that have any session."""
    with database.guarded() as connection:
        return {agent for (agent,) in connection.execute("SELECT DISTINCT agent FROM session")}


def whole_row(database: IndexDatabase, light: SearchRow) -> tuple[bytes, bytes] | None:
    """The summary of a session and where its messages lie, encoded; None: it is gone."""
    with database.guarded() as connection:
        found: tuple[bytes, bytes] | None = connection.execute(
            "SELECT body, places FROM session WHERE rowid = ? AND agent = ? AND id = ?",
            (light.row, light.agent, light.id),
        ).fetchone()
        return found


_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_ANYTHING: Final = msgspec.msgpack.Decoder(Any)
_EMPTY: Final[tuple[object, ...]] = (None, False, "", [])


def encode_message_sources(assembly: Assembly, session: AssembledSession) -> tuple[bytes, bytes]:
    """Where the messages of a session and its sub-agents lie, and the keys of these places.

    There are no keys where a conversation consists of several places, or of a part of one.
    """
    conversations = [message_sources(assembly, member) for member in session.with_children()]
    plain = msgspec.to_builtins(conversations, enc_hook=_to_plain)
    for _, stretches, *_ in plain:
        for stretch in stretches:
            stretch[0] = {name: said for name, said in stretch[0].items() if said not in _EMPTY}
    is_simple = all(each.is_whole for each in conversations)
    keys = [key for each in conversations for key in keys_of(session.agent, each)]
    return pack(plain), array("q", keys if is_simple else ()).tobytes()


def keys_of(agent: str, conversation: MessageSources) -> list[int]:
    """The keys of the places a conversation lies in."""
    return [
        text_unit_key(agent, each.source.location, each.session_id) for each in conversation.slices
    ]


def _decode_message_sources(data: bytes) -> list[MessageSources]:
    try:
        return msgspec.convert(unpack(data, _ANYTHING), list[MessageSources], dec_hook=_from_plain)
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
    del kind  # there is but one that is not known
    kept = msgspec.structs.asdict(msgspec.convert(value, _StoredSourceRef))
    root = Path(kept.pop("root"))
    return SourceRef(**kept, root=root)


def annotated(
    summary: SessionSummary, names: Sequence[str], costs: CostCalculator
) -> SessionSummary:
    """A kept summary with the tags and the star that it has now."""
    tags = costs.annotations.tags(summary.agent, names)
    starred = costs.annotations.is_starred(summary.agent, names)
    if not tags and not starred:
        return summary
    return msgspec.structs.replace(summary, tags=tags, starred=starred)


class StoredSession:
    """A row as a subject (see `Subject`), and its own traits."""

    def __init__(self, row: SearchRow, database: IndexDatabase, costs: CostCalculator) -> None:
        self._row = row
        self._database = database
        self._costs = costs

    @property
    def fields(self) -> StoredSession:
        """What is known without reading."""
        return self

    @property
    def agent(self) -> str:
        """The agent."""
        return self._row.agent

    @property
    def unified_id(self) -> str:
        """The agent and the id."""
        return f"{self._row.agent}:{self._row.id}"

    @property
    def title(self) -> str:
        """The title."""
        return self._row.title

    @property
    def created_at(self) -> datetime:
        """When it began."""
        return _EPOCH + timedelta(microseconds=self._row.created)

    @property
    def updated_at(self) -> datetime:
        """When it last changed."""
        return _EPOCH + timedelta(microseconds=self._row.updated)

    @property
    def last_change(self) -> int:
        """The same in microseconds since 1970."""
        return self._row.updated

    @property
    def cwd(self) -> str | None:
        """Where it was started."""
        return self._row.cwd

    @property
    def models(self) -> tuple[str, ...]:
        """Every model it used."""
        return tuple(filter(None, self._row.models.split("\n")))

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        return self._costs.annotations.tags(self._row.agent, self._row.names.split("\n"))

    @property
    def starred(self) -> bool:
        """Whether a person gave it a star."""
        return self._costs.annotations.is_starred(self._row.agent, self._row.names.split("\n"))

    @property
    def sort_key(self) -> bytes:
        """What it goes by among equals."""
        return self._row.sort_key

    @property
    def usd(self) -> float:
        """What it cost; -1 when nothing is known."""
        return self._row.usd

    @property
    def keys(self) -> Sequence[int] | None:
        """The keys of its conversations, if each is whole."""
        return array("q", self._row.keys) if self._row.keys else None

    def summary(self) -> SessionSummary:
        """What is shown of it."""
        if not self._costs.annotations:
            return self._summary
        return annotated(self._summary, self._row.names.split("\n"), self._costs)

    def message_sources(self) -> Sequence[MessageSources]:
        """Its own conversation first, then those of its sub-agents."""
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
        found = whole_row(self._database, self._row)
        if found is None:
            raise IndexChangedError("another process has made the rows anew")
        return found


class StoredSessions:
    """Every session of some agents that may be found; loaded again when the rows have changed."""

    def __init__(self) -> None:
        self._loaded_for: tuple[object, ...] = ()
        self._sessions: list[StoredSession] = []

    def sessions(
        self, database: IndexDatabase, agents: Sequence[str], costs: CostCalculator
    ) -> list[StoredSession]:
        """The sessions as they are now: the same list as long as they are the same."""
        now = (database, database.version(), tuple(agents), costs)
        if now != self._loaded_for:
            self._sessions = [
                StoredSession(row, database, costs) for row in search_rows(database, agents)
            ]
            self._loaded_for = now
        return self._sessions
