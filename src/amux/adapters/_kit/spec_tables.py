"""Reads the specification's tables `sessions`, `messages` and, for some agents, `tool_calls`.

The specification names the tables and their contents but not every column, so a column is looked up
under all of its usual names. A message with token counts is one call. `parent_id` is the session
that a session was forked from.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from amux.adapters._base import Head, Item
from amux.adapters._kit.fold import Fold, Unknowns, add_messages
from amux.adapters._kit.tables import Row, columns, quoted, rows
from amux.adapters._kit.usage import cost_view, usage_in_message, usage_view
from amux.adapters._kit.values import (
    count,
    document,
    first,
    is_items,
    is_mapping,
    mapping,
    moment,
    plain_text,
    text,
)
from amux.model.facts import Facts
from amux.model.incomplete import USAGE_NOT_RECORDED
from amux.model.message import Role, SessionMessage, SessionToolCall, ToolResult
from amux.model.problems import Problem
from amux.model.usage import Call

if TYPE_CHECKING:
    import sqlite3

_LINKS: Final = ("session_id", "sessionId", "conversation_id")
_ORDER: Final = ("position", "sequence", "seq", "idx")
_CREATED: Final = ("created_at", "createdAt", "time_created", "timestamp", "created")
_UPDATED: Final = ("updated_at", "updatedAt", "time_updated", "last_updated_at", "updated")
_MODEL: Final = ("model", "model_id")
_CONTENT: Final = ("content", "text", "body", "message")
_ROLES: Final[dict[Any, Role]] = {
    "user": "user",
    "human": "user",
    1: "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    2: "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
}
_FAILED: Final = ("error", "failed", "failure")


def has_spec_tables(connection: sqlite3.Connection) -> bool:
    """Return whether the database has the specification's tables."""
    return bool(columns(connection, "sessions") and columns(connection, "messages"))


def read_spec_tables(
    connection: sqlite3.Connection,
    path: str,
    *,
    bodies: bool,
    only: str | None,
    known: Container[str] = (),
) -> list[Item]:
    """Return the items of all sessions, or of the session `only`, except those in `known`.

    The number of statements depends on the tables, not on the number of sessions.
    """
    conversations = dict(_grouped(connection, "messages", only))
    tools = dict(_grouped(connection, "tool_calls", only))
    items: list[Item] = []
    for row in rows(connection, "sessions", columns(connection, "sessions")):
        session_id = _id(first(row, "id", "session_id", "uuid"))
        if session_id is None:
            message = "a session has no id"
            items.append(Problem(code="bad-record", message=message, path=path))
        elif session_id not in known and only in (None, session_id):
            own = (conversations.get(session_id, []), tools.get(session_id, []))
            items += _Session(session_id, row, *own).items(bodies=bodies)
    return items


def _grouped(
    connection: sqlite3.Connection, table: str, only: str | None
) -> Iterator[tuple[str, list[Row]]]:
    """Yield each session id with its rows, in order of insertion."""
    present = columns(connection, table)
    link = next((name for name in _LINKS if name in present), None)
    if link is None:
        return
    as_text = f"CAST({quoted(link)} AS TEXT)"
    order = [as_text, *(quoted(name) for name in _ORDER if name in present)]
    statement = "SELECT type, sql FROM sqlite_master WHERE name = ?"
    kind, sql = connection.execute(statement, (table,)).fetchone() or (None, None)
    has_rowid = kind == "table" and "WITHOUT ROWID" not in str(sql).upper()
    order.append("rowid" if has_rowid else quoted(present[0]))
    found = rows(
        connection,
        table,
        present,
        where="" if only is None else f"WHERE {as_text} = ?",
        order=f"ORDER BY {', '.join(order)}",
        values=() if only is None else (only,),
    )
    for session_id, group in groupby(found, key=lambda row: _id(row[link])):
        if session_id is not None:
            yield session_id, list(group)


def _id(value: Any) -> str | None:
    """Return an id as a string, whichever type the version uses; None if it is no id."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return text(value)


class _Session:
    """Builds the items of one session from its rows."""

    def __init__(
        self, session_id: str, row: Row, messages: Sequence[Row], tools: Sequence[Row]
    ) -> None:
        self._id = session_id
        self._row = row
        self._messages = messages
        self._tools = _by_message(messages, tools)
        self._recorded_results = {
            _id(first(row, "tool_call_id", "call_id")) for row in messages if _role(row) == "tool"
        }
        self._fold = Fold()
        self._unknown = Unknowns()
        self._calls: list[Call] = []

    def items(self, *, bodies: bool) -> Iterator[Item]:
        yield Head(session_id=self._id)
        for number, row in enumerate(self._messages):
            yield from add_messages(self._fold, self._message(number, row), bodies=bodies)
        for call in self._calls:
            self._fold.call(call)
            yield call
        yield self._facts()

    def _message(self, number: int, row: Row) -> Iterator[SessionMessage]:
        role = _role(row)
        if role is None:
            name = plain_text(_json_safe(first(row, "role", "type", "sender")))
            self._unknown.take(name, row)
            return
        message_id = _id(first(row, "id", "message_id", "uuid")) or f"{self._id}#{number}"
        call = _call(row, self._row, message_id)
        if call is not None:
            self._calls.append(call)
        tools = self._tools.get(message_id, []) if role == "assistant" else []
        yield SessionMessage(
            role=role,
            content=_content(first(row, *_CONTENT)),
            timestamp=moment(first(row, *_CREATED)),
            tool_calls=tuple(_tool_call(tool) for tool in tools),
            tool_result=_result(row) if role == "tool" else None,
            token_usage=usage_view(call),
            cost=cost_view(call),
            thinking=text(first(row, "thinking", "reasoning")),
            model=text(first(row, *_MODEL)),
            id=message_id,
        )
        for tool in tools:
            if _call_id(tool) not in self._recorded_results:
                yield from _tool_message(tool, message_id)

    def _facts(self) -> Facts:
        row = self._row
        self._fold.moment(moment(first(row, *_UPDATED)))
        parent = _id(first(row, "parent_id", "parentId", "forked_from"))
        answers = any(_role(message) == "assistant" for message in self._messages)
        return self._fold.facts(
            self._id,
            kind="session" if parent is None else "fork",
            parent=parent,
            cwd=text(first(row, "cwd", "directory", "workspace", "project_path", "path")),
            name=text(first(row, "title", "name")),
            created_at=moment(first(row, *_CREATED)),
            version=text(row.get("version")),
            archived=bool(first(row, "archived", "archived_at", "time_archived")),
            models=tuple(filter(None, [text(first(row, *_MODEL))])) or None,
            gaps=(USAGE_NOT_RECORDED,) if answers and not self._calls else (),
            raw=self._unknown.raw(),
        )


def _by_message(messages: Sequence[Row], tools: Sequence[Row]) -> dict[str, list[Row]]:
    """Group tool calls by their message; those that name none belong to the last answer."""
    answers = (row for row in reversed(messages) if _role(row) == "assistant")
    last = _id(first(next(answers, Row()), "id", "message_id", "uuid"))
    found: dict[str, list[Row]] = {}
    for tool in tools:
        owner = _id(first(tool, "message_id", "messageId")) or last
        if owner is not None:
            found.setdefault(owner, []).append(tool)
    return found


def _role(row: Row) -> Role | None:
    value = first(row, "role", "type", "sender")
    key = value.lower() if isinstance(value, str) else value
    return _ROLES.get(key) if isinstance(key, str | int) else None


def _content(value: Any) -> str:
    """Return the text of a content: a string, or the texts of a JSON list of typed parts."""
    plain = _decoded(value)
    if not isinstance(plain, str):
        return "" if plain is None else plain_text(plain)
    parts = document(plain) if plain.lstrip().startswith("[") else None
    if not is_items(parts) or not parts or not all(is_mapping(p) and "type" in p for p in parts):
        return plain
    texts = (mapping(part).get("text") for part in parts)
    return "\n".join(found for found in texts if isinstance(found, str))


def _decoded(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _json_safe(value: Any) -> Any:
    """Return a cell as a value that JSON can represent; text that is JSON is decoded."""
    plain = _decoded(value)
    if isinstance(plain, float) and not math.isfinite(plain):
        return None
    if isinstance(plain, str) and plain.lstrip()[:1] in ("{", "["):
        inner = document(plain)
        return plain if inner is None else inner
    return plain


def _call(row: Row, session: Row, message_id: str) -> Call | None:
    """Return the call of a message whose counts are in columns or in one JSON column, or None."""
    inner = mapping(document(first(row, "token_usage", "usage", "tokens")))
    figures = inner | {name: value for name, value in row.items() if value is not None}
    recorded = usage_in_message({**row, "usage": figures})
    if recorded is None:
        return None
    return Call(
        key=message_id,
        model=text(first(row, *_MODEL)) or text(first(session, *_MODEL)),
        at=moment(first(row, *_CREATED)) or moment(first(session, *_CREATED)),
        tokens=recorded.tokens,
        native_nusd=recorded.nusd,
        message_id=message_id,
        gaps=recorded.gaps,
    )


def _call_id(tool: Row) -> str:
    return _id(first(tool, "tool_call_id", "call_id", "id", "uuid")) or ""


def _tool_name(row: Row) -> str:
    return text(first(row, "tool_name", "name", "tool")) or ""


def _tool_call(tool: Row) -> SessionToolCall:
    return SessionToolCall(
        tool_call_id=_call_id(tool),
        tool_name=_tool_name(tool),
        input=_json_safe(first(tool, "input", "arguments", "args", "params", "parameters")),
        duration_ms=count(first(tool, "duration_ms", "durationMs", "duration")),
    )


def _tool_message(tool: Row, message_id: str) -> Iterator[SessionMessage]:
    output = _json_safe(first(tool, "output", "result", "response", "error"))
    if output is None:
        return
    yield SessionMessage(
        role="tool",
        content=plain_text(output),
        timestamp=moment(first(tool, "completed_at", "finished_at", *_CREATED)),
        tool_result=ToolResult(
            tool_call_id=_call_id(tool),
            tool_name=_tool_name(tool),
            output=output,
            is_error=_has_failed(tool),
        ),
        parent_id=message_id,
    )


def _result(row: Row) -> ToolResult:
    return ToolResult(
        tool_call_id=_id(first(row, "tool_call_id", "call_id")) or "",
        tool_name=_tool_name(row),
        output=_content(first(row, *_CONTENT)),
        is_error=_has_failed(row),
    )


def _has_failed(row: Row) -> bool | None:
    flag = first(row, "is_error", "isError")
    if flag is not None:
        return bool(flag)
    if row.get("success") is not None:
        return not row["success"]
    status = text(row.get("status"))
    if status is None:
        return True if first(row, "error") is not None else None
    return status.lower() in _FAILED
