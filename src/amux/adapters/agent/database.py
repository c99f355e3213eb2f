"""Reads the database of newer versions: sessions and their entries, without usage or titles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from amux.adapters._base import Head, Item
from amux.adapters._kit.fold import Fold
from amux.adapters._kit.sql_selection import micros
from amux.adapters._kit.tables import Row, SelectedIds, columns, rows
from amux.adapters._kit.values import document, items, mapping, parse_time, text
from amux.model.incomplete import USAGE_NOT_RECORDED
from amux.model.message import Role, SessionMessage, SessionToolCall, ToolResult
from amux.model.problems import Problem, ProblemCode

if TYPE_CHECKING:
    import sqlite3

_SESSION_COLUMNS: Final = ("id", "profile", "cwd", "created_at", "updated_at")
_ENTRY_COLUMNS: Final = ("id", "session_id", "kind", "role", "content", "metadata", "created_at")
_CANDIDATES: Final = """candidates AS MATERIALIZED (
    SELECT amux_id(id) AS id, {began} AS began, {cwd} AS cwd, FALSE AS nested,
        FALSE AS archived, NULL AS parent FROM sessions{without_row})"""
_WITHOUT_ROW: Final = """
    UNION ALL SELECT amux_id(session_id), NULL, NULL, FALSE, FALSE, NULL FROM (
        SELECT DISTINCT session_id FROM entries
        WHERE session_id NOT IN (SELECT id FROM sessions WHERE id IS NOT NULL))
    WHERE amux_text(session_id) IS NOT NULL"""
_ROLES: Final[dict[str, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "system": "system",
}
# The format of Go's time.String(): `2026-03-21 10:11:12.123456789 +0000 UTC m=+0.01`.
_GO_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d{1,6})?)\d* ?(Z|[+-]\d\d:?\d\d)?"
)


def read_database(
    connection: sqlite3.Connection, path: str, *, only: SelectedIds | None, bodies: bool
) -> list[Item]:
    """Return all items of a database, or those of some sessions."""
    present = columns(connection, "sessions")
    if "id" not in present:
        message = "the database has no table `sessions` with a column `id`"
        return [Problem(code="unknown-format", message=message, path=path)]
    sessions = {
        id: _Session(id, row, path, bodies=bodies)
        for row in _rows(connection, "sessions", _SESSION_COLUMNS, _where("id", only))
        if (id := text(row.get("id"))) is not None
    }
    if {"session_id", "kind", "role"} <= set(columns(connection, "entries")):
        for row in _rows(connection, "entries", _ENTRY_COLUMNS, _where("session_id", only)):
            id = text(row.get("session_id"))
            if id is not None:
                sessions.setdefault(id, _Session(id, {}, path, bodies=bodies)).add(row)
    return [item for session in sessions.values() for item in session.items()]


def candidates_sql(connection: sqlite3.Connection) -> str | None:
    """Return the SQL expressions of `candidates`; None if there is no table of sessions.

    The table has the start of a session. Its last change may be in the entries only.
    """
    present = columns(connection, "sessions")
    if "id" not in present:
        return None
    connection.create_function("amux_go_time", 1, _go_micros, deterministic=True)
    has_entries = {"session_id", "kind", "role"}.issubset(columns(connection, "entries"))
    return _CANDIDATES.format(
        began="amux_go_time(created_at)" if "created_at" in present else "NULL",
        cwd="amux_text(cwd)" if "cwd" in present else "NULL",
        without_row=_WITHOUT_ROW if has_entries else "",
    )


def _where(column: str, only: SelectedIds | None) -> tuple[str, tuple[str, ...]]:
    return ("", ()) if only is None else (f"WHERE {column} IN {only.sql}", only.values)


def _rows(
    connection: sqlite3.Connection,
    table: str,
    wanted: Sequence[str],
    where: tuple[str, tuple[str, ...]],
) -> Iterator[Row]:
    present = columns(connection, table)
    names = [name for name in wanted if name in present]
    return rows(connection, table, names, where=where[0], order="ORDER BY rowid", values=where[1])


def go_time(value: object) -> datetime | None:
    """Parse a time as the agent's database driver writes it; None if it is no time."""
    if not isinstance(value, str):
        return None
    found = _GO_TIME.match(value.strip())
    return None if found is None else parse_time(f"{found[1]}T{found[2]}{found[3] or 'Z'}")


def _go_micros(cell: object) -> int | None:
    return micros(go_time(cell))


class _Session:
    """Builds the items of one session from its entries."""

    def __init__(self, id: str, row: Row, path: str, *, bodies: bool) -> None:
        self._id = id
        self._bodies = bodies
        self._position = 0
        self._replied = False
        self._row = row
        self._path = path
        self._fold = Fold()
        self._messages: list[SessionMessage] = []
        self._problems: list[Problem] = []
        self._calls: set[str] = set()
        self._compactions = 0

    def add(self, row: Row) -> None:
        """Add an entry; events are ignored, since messages contain the same information."""
        kind, role = row.get("kind"), _ROLES.get(text(row.get("role")) or "")
        if kind == "compaction":
            self._compactions += 1
            self._add_message(_entry_message(row, "system", self._position, compaction=True))
        elif kind == "message" and role is not None:
            message = _entry_message(row, role, self._position)
            self._calls.update(call.tool_call_id for call in message.tool_calls)
            result = message.tool_result
            if result is not None and result.tool_call_id not in self._calls:
                self._problem("orphan-result", "a tool result belongs to no call")
            self._add_message(message)
        elif kind != "event":
            self._problem("bad-record", f"skipped an entry of unknown kind `{kind}`")

    def _add_message(self, message: SessionMessage) -> None:
        self._position += 1
        self._replied |= message.role == "assistant"
        self._fold.message(message)
        if self._bodies:
            self._messages.append(message)

    def _problem(self, code: ProblemCode, message: str) -> None:
        problem = Problem(code=code, message=message, path=self._path)
        self._fold.problem(problem)
        self._problems.append(problem)

    def items(self) -> Iterator[Item]:
        """Yield the head, problems, messages and facts."""
        created = go_time(self._row.get("created_at"))
        self._fold.moment(created)
        self._fold.moment(go_time(self._row.get("updated_at")))
        profile = text(self._row.get("profile"))
        yield Head(session_id=self._id)
        yield from self._problems
        yield from self._messages
        yield self._fold.facts(
            self._id,
            cwd=text(self._row.get("cwd")),
            created_at=created,
            compactions=self._compactions,
            gaps=(USAGE_NOT_RECORDED,) if self._replied else (),
            raw=None if profile is None else {"profile": profile},
        )


def _entry_message(
    row: Row, role: Role, position: int, *, compaction: bool = False
) -> SessionMessage:
    metadata = mapping(document(row.get("metadata")))
    stored = row.get("content")
    content = stored if isinstance(stored, str) else ""
    result = ToolResult(
        tool_call_id=text(metadata.get("toolCallId")) or "",
        tool_name=text(metadata.get("toolName")) or "",
        output=content,
    )
    id = row.get("id")
    return SessionMessage(
        role=role,
        content=content,
        timestamp=go_time(row.get("created_at")),
        id=str(id) if isinstance(id, int) else f"{row.get('session_id')}:{position}",
        synthetic=compaction,
        compaction=compaction,
        tool_calls=tuple(
            SessionToolCall(
                tool_call_id=text(call.get("ID")) or text(call.get("id")) or "",
                tool_name=text(call.get("ToolID")) or text(call.get("toolId")) or "",
                input=call.get("Arguments", call.get("arguments")),
            )
            for call in map(mapping, items(metadata.get("toolCalls")))
        ),
        tool_result=result if role == "tool" else None,
    )
