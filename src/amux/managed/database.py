"""The database of managed sessions: their states, the ids of their agents, and their managers.

A session that an agent works on has a row in `activity`: the process that manages it, and the time
of its last heartbeat. The row is a lease: no other process may work on the session meanwhile.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from amux.errors import StoreError
from amux.host import Host
from amux.managed.state import SessionState, SessionStatus
from amux.model.base import encode_json
from amux.store.session_db.connection import DatabaseFile, is_corrupt

_COLUMNS: Final = (
    "id", "agent_type", "agent_session_id", "created_at", "updated_at", "status", "metadata",
    "prompt_history", "resume_count", "last_error",
)  # fmt: skip

MIGRATIONS: Final = (
    (
        """CREATE TABLE sessions (
            id TEXT PRIMARY KEY,
            agent_type TEXT NOT NULL,
            agent_session_id TEXT,
            created_at TEXT NOT NULL,
            updated_at TEXT NOT NULL,
            status TEXT NOT NULL,
            metadata TEXT NOT NULL,
            prompt_history TEXT NOT NULL,
            resume_count INTEGER NOT NULL,
            last_error TEXT
        ) STRICT""",
        "CREATE INDEX sessions_by_agent ON sessions (agent_type, updated_at)",
    ),
    (
        """CREATE TABLE native_ids (
            agent_type TEXT NOT NULL,
            agent_session_id TEXT NOT NULL,
            session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            PRIMARY KEY (agent_type, agent_session_id)
        ) STRICT, WITHOUT ROWID""",
        """INSERT OR REPLACE INTO native_ids
            SELECT agent_type, agent_session_id, id FROM sessions
            WHERE agent_session_id IS NOT NULL ORDER BY updated_at""",
        """CREATE TABLE activity (
            session_id TEXT PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
            token TEXT NOT NULL,
            host TEXT NOT NULL,
            pid INTEGER NOT NULL,
            process TEXT NOT NULL,
            heartbeat_at TEXT NOT NULL
        ) STRICT, WITHOUT ROWID""",
    ),
)
"""The statements that bring a database from each version to the next one."""


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """The process that works on a session. `process` distinguishes it from all others."""

    session_id: str
    token: str
    host: str
    pid: int
    process: str
    heartbeat_at: datetime


class ManagedDatabase:
    """The tables of managed sessions in one SQLite file that several processes use."""

    def __init__(self, path: Path, host: Host, *, read_only: bool = False) -> None:
        self._file = DatabaseFile(path, host, read_only=read_only)
        try:
            version = self._known_version()
            if not read_only:
                self._file.use_wal()
                self._migrate(version)
        except BaseException:
            self._file.close()
            raise

    def save(self, state: SessionState) -> None:
        """Store a state, whether or not the session is known."""
        self._file.write(lambda connection: _save(connection, state))

    def add(self, state: SessionState) -> None:
        """Store the state of a new session.

        Raises:
            StoreError: The id is in use.
        """
        marks = ", ".join("?" * len(_COLUMNS))
        insert = f"INSERT INTO sessions VALUES ({marks})"  # noqa: S608 - only question marks

        def change(connection: sqlite3.Connection) -> None:
            connection.execute(insert, _values(state))
            _save_native_id(connection, state)

        self._file.write(change)

    def update(
        self, session_id: str, change: Callable[[SessionState], SessionState]
    ) -> SessionState | None:
        """Change a state in one transaction; return the new one, or None without a session."""

        def apply(connection: sqlite3.Connection) -> SessionState | None:
            before = _get(connection, session_id)
            if before is None:
                return None
            after = change(before)
            _save(connection, after)
            return after

        return self._file.write(apply)

    def get(self, session_id: str) -> SessionState | None:
        """Return the state of a session; None if there is none."""
        return self._file.read(lambda connection: _get(connection, session_id))

    def list(self) -> list[SessionState]:
        """Return all states, the one that changed last first."""
        query = "SELECT * FROM sessions ORDER BY updated_at DESC, id"
        rows = self._file.read(lambda connection: connection.execute(query).fetchall())
        return [_state(row) for row in rows]

    def delete(self, session_id: str) -> bool:
        """Delete a session; return whether there was one."""
        statement = "DELETE FROM sessions WHERE id = ?"
        return self._file.write(
            lambda connection: connection.execute(statement, (session_id,)).rowcount > 0
        )

    def find_native(self, agent: str, agent_session_id: str) -> str | None:
        """Return the session that has, or had, this id of the agent; None if there is none."""
        query = "SELECT session_id FROM native_ids WHERE agent_type = ? AND agent_session_id = ?"
        row = self._file.read(
            lambda connection: connection.execute(query, (agent, agent_session_id)).fetchone()
        )
        return None if row is None else str(row[0])

    def claim(self, activity: Activity, is_valid: Callable[[Activity], bool]) -> Activity | None:
        """Take the lease of a session; return the valid lease of another process instead, if any.

        A lease that is not valid is replaced.
        """

        def change(connection: sqlite3.Connection) -> Activity | None:
            held = _activity(connection, activity.session_id)
            if held is not None and held.token != activity.token and is_valid(held):
                return held
            connection.execute(
                "INSERT OR REPLACE INTO activity VALUES (?, ?, ?, ?, ?, ?)",
                (
                    activity.session_id, activity.token, activity.host, activity.pid,
                    activity.process, _text(activity.heartbeat_at),
                ),
            )  # fmt: skip
            return None

        return self._file.write(change)

    def beat(self, activities: Sequence[Activity], now: datetime) -> None:
        """Renew leases; one that is not stored, because the disk refused it, is stored now."""
        statement = """INSERT INTO activity SELECT ?, ?, ?, ?, ?, ?
            WHERE EXISTS (SELECT 1 FROM sessions WHERE id = ? AND status = 'active')
            ON CONFLICT (session_id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at
            WHERE token = excluded.token"""
        values = [
            (each.session_id, each.token, each.host, each.pid, each.process, _text(now),
             each.session_id)
            for each in activities
        ]  # fmt: skip
        self._file.write(lambda connection: connection.executemany(statement, values))

    def release(self, session_id: str, token: str | None = None) -> None:
        """Give a lease back; without a token, that of any process."""
        statement = "DELETE FROM activity WHERE session_id = ? AND token = coalesce(?, token)"
        self._file.write(lambda connection: connection.execute(statement, (session_id, token)))

    def activity(self, session_id: str) -> Activity | None:
        """Return the lease of a session, valid or not; None if there is none."""
        return self._file.read(lambda connection: _activity(connection, session_id))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _known_version(self) -> int:
        """Return the version of the file; a newer one is refused before anything is written."""
        version = self._file.read(_version)
        if version > len(MIGRATIONS):
            raise StoreError(
                f"`{self._file.path}` has version {version}, which this amux cannot read",
                hint="use a newer version of amux",
            )
        return version

    def _migrate(self, version: int) -> None:
        if version == len(MIGRATIONS):
            return

        def migrate(connection: sqlite3.Connection) -> None:
            for statements in MIGRATIONS[_version(connection) :]:
                for statement in statements:
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")

        self._file.write(migrate)


def is_damaged(error: StoreError) -> bool:
    """Return whether an error says that the file is no database, or a broken one."""
    cause = error.__cause__
    if not isinstance(cause, sqlite3.Error):
        return False
    return is_corrupt(cause) or cause.sqlite_errorcode == sqlite3.SQLITE_NOTADB


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _get(connection: sqlite3.Connection, session_id: str) -> SessionState | None:
    row = connection.execute("SELECT * FROM sessions WHERE id = ?", (session_id,)).fetchone()
    return None if row is None else _state(row)


def _activity(connection: sqlite3.Connection, session_id: str) -> Activity | None:
    query = "SELECT * FROM activity WHERE session_id = ?"
    row = connection.execute(query, (session_id,)).fetchone()
    if row is None:
        return None
    fields: dict[str, Any] = dict(row)
    fields["heartbeat_at"] = _moment(fields["heartbeat_at"])
    return Activity(**fields)


def _save(connection: sqlite3.Connection, state: SessionState) -> None:
    marks = ", ".join("?" * len(_COLUMNS))
    changes = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS[1:])
    connection.execute(
        f"INSERT INTO sessions VALUES ({marks}) ON CONFLICT (id) DO UPDATE SET {changes}",  # noqa: S608 - names of the schema
        _values(state),
    )
    _save_native_id(connection, state)


def _save_native_id(connection: sqlite3.Connection, state: SessionState) -> None:
    if state.agent_session_id is not None:
        connection.execute(
            "INSERT OR REPLACE INTO native_ids VALUES (?, ?, ?)",
            (state.agent_type, state.agent_session_id, state.id),
        )


def _values(state: SessionState) -> tuple[object, ...]:
    return (
        state.id,
        state.agent_type,
        state.agent_session_id,
        _text(state.created_at),
        _text(state.updated_at),
        state.status.value,
        _json(state.metadata),
        _json(state.prompt_history),
        state.resume_count,
        state.last_error,
    )


def _state(row: sqlite3.Row) -> SessionState:
    fields: dict[str, Any] = dict(row)
    return SessionState(
        id=fields["id"],
        agent_type=fields["agent_type"],
        agent_session_id=fields["agent_session_id"],
        created_at=_moment(fields["created_at"]),
        updated_at=_moment(fields["updated_at"]),
        status=SessionStatus(fields["status"]),
        metadata=msgspec.json.decode(fields["metadata"], type=dict[str, Any]),
        prompt_history=msgspec.json.decode(fields["prompt_history"], type=tuple[str, ...]),
        resume_count=fields["resume_count"],
        last_error=fields["last_error"],
    )


def _json(value: object) -> str:
    return encode_json(value).decode()


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
