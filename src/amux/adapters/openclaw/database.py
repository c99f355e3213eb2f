"""Reads OpenClaw's database of one agent: all sessions with their events in order.

The number of statements does not depend on the number of sessions. Columns are checked before they
are queried. Long events are compressed; without a decoder only their position in the tree is
known. Events that a reset archived precede the events that followed it.

A list reads the whole database, because the time and directory of a session are in its first
event. For a single session, the tables and first events name the related sessions: forks and
continuations name their origin; for an archived session, the tables do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import msgspec

from amux.adapters._base import Item, SourceRef, Want
from amux.adapters._kit.jsonl import unreadable
from amux.adapters._kit.related import LinkKeys, Named, queryable_ids
from amux.adapters._kit.streams import DecoderMissingError, decompress
from amux.adapters._kit.values import document, first, mapping, text
from amux.adapters.openclaw import agent_or_channel
from amux.adapters.openclaw.envelopes import OpenClawTexts
from amux.adapters.pi.log import Origin, referenced_session
from amux.adapters.pi.reader import MemoryLines, read_log
from amux.errors import ParseError
from amux.model.facts import Kind
from amux.model.problems import Problem

if TYPE_CHECKING:
    import sqlite3

Row = dict[str, Any]

_EVENTS: Final = "transcript_events"
_ARCHIVES: Final = ("session_transcript_archives", "session_transcript_cold_archives")
_FIRST_EVENTS: Final = (
    f"WHERE (session_id, seq) IN (SELECT session_id, min(seq) FROM {_EVENTS} GROUP BY session_id)"  # noqa: S608 - constants
)
_EVENT_LIMIT: Final = 64 << 20
_ARCHIVE_LIMIT: Final = 1 << 30
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_KINDS: Final[dict[str, Kind]] = {
    "fork": "fork",
    "rewind": "fork",
    "compaction": "continuation",
    "rollover": "continuation",
    "recovery": "continuation",
}
"""Reasons for a new session that continues the conversation of the previous one."""


def read_database(source: SourceRef, *, want: Want, only: Sequence[str] | None) -> Iterator[Item]:
    """Yield all sessions of a database, or only those with the ids in `only`."""
    from amux.adapters._kit.sqlite import read_foreign

    def query(connection: sqlite3.Connection) -> list[Item]:
        database = _AgentDatabase(connection, source)
        wanted = (None,) if only is None else only
        sessions = (session for one in wanted for session in database.sessions(one))
        found = [item for session in sessions for item in database.items(session, want)]
        return [*found, *database.problems]

    try:
        yield from read_foreign(source.path, query)
    except ParseError as error:
        yield Problem(code="unknown-format", message=str(error), path=str(source.path))
    except OSError as error:
        yield unreadable(source.path, error)


def names_in(source: SourceRef, connection: sqlite3.Connection) -> list[Named] | None:
    """Return the ids and aliases of all sessions; None if the tables are unknown."""
    database = _AgentDatabase(connection, source)
    ids = database.ids()
    return None if ids is None else [Named(id, database.origin_of(id).aliases) for id in ids]


def keys_by_session(source: SourceRef, connection: sqlite3.Connection) -> LinkKeys | None:
    """Return, by session, its aliases and the names of its origin; None if tables are unknown."""
    database = _AgentDatabase(connection, source)
    ids = database.ids()
    if ids is None:
        return None
    keys: dict[str, list[str]] = {}
    for id in ids:
        origin = database.origin_of(id)
        keys[id] = [*origin.aliases, *filter(None, [origin.parent])]
    for id, named in database.named_in_headers():
        keys[id] += named
    return keys


class _Session(msgspec.Struct, frozen=True):
    """The events of one session."""

    id: str
    events: Sequence[bytes]
    problems: Sequence[Problem]
    is_live: bool  # there are events besides archived ones


class _AgentDatabase:
    """The database, as read over one connection."""

    def __init__(self, connection: sqlite3.Connection, source: SourceRef) -> None:
        self._connection = connection
        self._source = source
        self._path = str(source.path)
        self.problems: list[Problem] = []  # problems that concern no session
        self._nodes = self._keyed("session_nodes", "session_key")
        self._windows = self._keyed("session_windows", "session_id")
        self._states = self._keyed("session_transcript_index_state", "session_id")

    def _keyed(self, table: str, key: str) -> dict[str, Row]:
        return {str(row[key]): row for row in self._rows(table) if text(row.get(key))}

    def _rows(
        self, table: str, *, only: str | None = None, order: str = "", where: str = ""
    ) -> Iterator[Row]:
        from amux.adapters._kit.tables import columns, rows

        names = columns(self._connection, table)
        if not names:
            return iter(())
        where, values = (where, ()) if only is None else ("WHERE session_id = ?", (only,))
        return rows(self._connection, table, names, where=where, order=order, values=values)

    # names

    def ids(self) -> list[str] | None:
        """Return the ids of all sessions; None if some cannot be used in a query."""
        from amux.adapters._kit.tables import columns, quoted

        if not {"session_id", "seq"}.issubset(columns(self._connection, _EVENTS)):
            return None
        tables = [t for t in (_EVENTS, *_ARCHIVES) if "session_id" in columns(self._connection, t)]
        each = " UNION ".join(f"SELECT session_id FROM {quoted(table)}" for table in tables)  # noqa: S608 - constants
        return queryable_ids(id for (id,) in self._connection.execute(each))

    def origin_of(self, session_id: str) -> Origin:
        """Return the properties of a session that the tables record."""
        return self._origin(_Session(session_id, (), (), is_live=True))

    def named_in_headers(self) -> Iterator[tuple[str, list[str]]]:
        """Yield, by session, the names in its first event: its own id and that of its origin."""
        for row in self._rows(_EVENTS, where=_FIRST_EVENTS):
            header = mapping(document(self._event(row, [])))
            reference = text(header.get("parentSession")) or text(header.get("branchedFrom"))
            origin = None if reference is None else referenced_session(reference)
            yield row["session_id"], [*filter(None, (text(header.get("id")), origin))]

    # events

    def sessions(self, only: str | None) -> Iterator[_Session]:
        """Yield the sessions with their events; all of them if `only` is None."""
        from amux.adapters._kit.tables import columns

        missing = {"session_id", "seq"} - {*columns(self._connection, _EVENTS)}
        if missing:
            raise ParseError(f"`{self._path}` has no event table that amux knows")
        archives: dict[str, list[bytes]] = {}
        for table in _ARCHIVES:
            for row in sorted(self._rows(table, only=only), key=_archived_at):
                archived_id, blob = text(row.get("session_id")), row.get("archive_blob")
                if archived_id is not None and isinstance(blob, bytes):
                    archives.setdefault(archived_id, []).append(blob)
        live = self._rows(_EVENTS, only=only, order="ORDER BY session_id, seq")
        for session_id, group in groupby(live, key=lambda row: text(row["session_id"])):
            if session_id is None:
                self.problems.append(self._bad_record("some events have no session id"))
            else:
                yield self._session(session_id, archives.pop(session_id, []), list(group))
        for session_id, blobs in archives.items():
            yield self._session(session_id, blobs, [])

    def _session(self, session_id: str, blobs: list[bytes], live: list[Row]) -> _Session:
        events: list[bytes] = []
        problems: list[Problem] = []
        for blob in blobs:
            events += self._decompressed(blob, _ARCHIVE_LIMIT, problems).splitlines()
        for row in live:
            events.append(self._event(row, problems))
        return _Session(session_id, list(filter(None, events)), problems, bool(live))

    def _event(self, row: Row, problems: list[Problem]) -> bytes:
        """Return an event as JSON; only its navigation data if it cannot be decompressed."""
        plain_json, packed = row.get("event_json"), row.get("event_zstd")
        if isinstance(plain_json, str):
            return plain_json.encode("utf-8", "replace")
        plain = (
            self._decompressed(packed, _EVENT_LIMIT, problems) if isinstance(packed, bytes) else b""
        )
        if plain:
            return plain
        known = mapping(document(row.get("navigation_json"))).get("navigation")
        if known is None and packed is None:
            problems.append(self._bad_record("an event has no content"))
        return msgspec.json.encode(mapping(known))

    def _decompressed(self, data: bytes, limit: int, problems: list[Problem]) -> bytes:
        if not data.startswith(_ZSTD):
            return data
        try:
            return decompress(data, limit=limit)
        except DecoderMissingError:
            message = "some events are compressed; install `zstandard` to read them"
            problem = Problem(code="decoder-missing", message=message, path=self._path)
        except OSError as error:
            problem = self._bad_record(str(error))
        if problem not in problems:
            problems.append(problem)
        return b""

    def _bad_record(self, message: str) -> Problem:
        return Problem(code="bad-record", message=message, path=self._path)

    # sessions

    def items(self, session: _Session, want: Want) -> Iterator[Item]:
        """Yield the items of one session, read like any log."""
        lines = MemoryLines(session.events, path=self._path, problems=session.problems)
        return read_log(lines, self._origin(session), want=want)

    def _origin(self, session: _Session) -> Origin:
        window = self._windows.get(session.id, {})
        key = text(window.get("session_key")) or ""
        node = self._nodes.get(key, {})
        is_current = text(node.get("current_session_id")) in {None, session.id}
        if not is_current:  # the node describes the newest session of the conversation
            node = {}
        kind, parent = self._lineage(window, node)
        agent = agent_or_channel(self._source)
        state = self._states.get(session.id, {})
        is_outdated = bool(state.get("needs_rebuild"))
        entry = mapping(document(node.get("entry_json")))
        channel = text(window.get("channel")) or text(first(entry, "channel", "lastChannel"))
        raw = {"agentId": agent, "sessionKey": key, "channel": channel}
        return Origin(
            session_id=session.id,
            path=self._path,
            decides_id=True,
            leaf_id=None if is_outdated else text(state.get("leaf_event_id")),
            kind=kind,
            parent=parent,
            name=text(node.get("label")),
            archived=node.get("archived_at") is not None or not session.is_live,
            namespace=agent,
            aliases=(key, f"{agent}/{session.id}") if key and is_current else (),
            texts=OpenClawTexts(),
            raw={name: value for name, value in raw.items() if value},
        )

    def _lineage(self, window: Row, node: Row) -> tuple[Kind | None, str | None]:
        spawner = text(node.get("spawned_by")) or text(window.get("spawned_by"))
        if spawner is not None:
            return "subagent", text(self._nodes.get(spawner, {}).get("current_session_id"))
        forked_from = text(node.get("fork_source_session_id"))
        if forked_from is not None:
            return "fork", forked_from
        kind = _KINDS.get(text(window.get("reason")) or "")
        return (None, None) if kind is None else (kind, text(window.get("previous_session_id")))


def _archived_at(row: Row) -> int:
    at = first(row, "created_at", "archived_at")
    return at if isinstance(at, int) else 0
