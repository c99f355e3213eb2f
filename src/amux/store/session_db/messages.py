"""Rows of messages: appended, read back, replaced, rewound and compacted.

Messages are in the order of their ids, that is of insertion: a clock may step back. A message that
is not active is out of the conversation. If it is marked `compacted`, a summary stands for it and a
search still finds it; otherwise it was rewound, and nothing shows it unless asked to.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from amux.errors import ValidationError
from amux.store.session_db import sessions
from amux.store.session_db.rows import (
    Row,
    count_tool_calls,
    decode_content,
    decode_json,
    encode_content,
    encode_json,
    encode_text,
    encode_time,
    row_of,
)

_TICK_S: Final = 1e-6
"""The distance of messages that are stored together and have no times of their own."""

_LARGEST_COUNT: Final = 2**63

_TEXTS: Final = ("tool_call_id", "tool_name", "finish_reason", "reasoning", "reasoning_content")
_DOCUMENTS: Final = ("reasoning_details", "codex_reasoning_items", "codex_message_items")
_ANSWER_FIELDS: Final = ("finish_reason", "reasoning", "reasoning_content")
_COLUMNS: Final = (
    *("session_id", "role", "content", "tool_calls", "timestamp", "token_count"),
    *("active", "compacted", *_TEXTS, *_DOCUMENTS),
)
_INSERT: Final = (
    f"INSERT INTO messages({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
)

Message = Mapping[str, Any]
"""A message with the names of the columns as keys; `role` is required."""


def insert(
    connection: sqlite3.Connection,
    session_id: str,
    messages: Iterable[Message],
    now: float,
    *,
    is_exported: bool = False,
) -> list[int]:
    """Append messages to a session and raise its counters. Return the ids of the new rows.

    Raises `SessionNotFoundError` or `ValidationError`, and then stores none of the messages.
    `is_exported` says that documents are JSON text already and that the messages may be inactive.
    """
    sessions.require(connection, session_id)
    ids: list[int] = []
    active = calls = 0
    for number, message in enumerate(messages):
        values = _values(message, now + number * _TICK_S, is_exported=is_exported)
        ids.append(_inserted(connection, (session_id, *values.values())))
        if values["active"]:
            active += 1
            calls += count_tool_calls(message.get("tool_calls"))
    connection.execute(
        "UPDATE sessions SET message_count = COALESCE(message_count, 0) + ?, "
        "tool_call_count = COALESCE(tool_call_count, 0) + ? WHERE id = ?",
        (active, calls, session_id),
    )
    return ids


def select(
    connection: sqlite3.Connection,
    session_id: str,
    *,
    include_inactive: bool = False,
    limit: int | None = None,
    offset: int = 0,
) -> list[Row]:
    """Return messages in order with all their columns; content and tool calls are decoded."""
    rows = connection.execute(
        "SELECT * FROM messages WHERE session_id = ? AND active >= ? ORDER BY id LIMIT ? OFFSET ?",
        (session_id, 0 if include_inactive else 1, -1 if limit is None else limit, offset),
    )
    return [decode_message(row_of(row)) for row in rows]


def decode_message(row: Row) -> Row:
    """Return a row of `messages` with its content and its tool calls decoded."""
    row["content"] = decode_content(row["content"])
    row["tool_calls"] = decode_json(row["tool_calls"])
    return row


def conversation(
    connection: sqlite3.Connection, session_ids: Sequence[str], *, include_inactive: bool = False
) -> list[Row]:
    """Return the messages of a chain of sessions in the form that model APIs take.

    A continuation may begin with the prompt that its parent ends with: a prompt that repeats the
    one before it, with no answer in between, is left out.
    """
    found: list[Row] = []
    prompt: object = None
    for session_id in session_ids:
        for row in select(connection, session_id, include_inactive=include_inactive):
            message = _replayed(row)
            if row["role"] == "user":
                if len(session_ids) > 1 and prompt is not None and message["content"] == prompt:
                    continue
                prompt = message["content"]
            elif row["role"] == "assistant":
                prompt = None
            found.append(message)
    return found


def replace(
    connection: sqlite3.Connection,
    session_id: str,
    messages: Iterable[Message],
    now: float,
    *,
    active_only: bool = False,
) -> None:
    """Replace the messages of a session, or only the active ones."""
    sessions.require(connection, session_id)
    condition = " AND active = 1" if active_only else ""
    connection.execute(f"DELETE FROM messages WHERE session_id = ?{condition}", (session_id,))
    _clear_counters(connection, session_id)
    insert(connection, session_id, messages, now)


def clear(connection: sqlite3.Connection, session_id: str) -> None:
    """Remove all messages of a session and keep its row."""
    connection.execute("DELETE FROM messages WHERE session_id = ?", (session_id,))
    _clear_counters(connection, session_id)


def compact(
    connection: sqlite3.Connection, session_id: str, messages: Iterable[Message], now: float
) -> int:
    """Take the active messages out of the conversation and put others in their place.

    Return the number of active messages. The old ones stay searchable.
    """
    sessions.require(connection, session_id)
    connection.execute(
        "UPDATE messages SET active = 0, compacted = 1 WHERE session_id = ? AND active = 1",
        (session_id,),
    )
    _clear_counters(connection, session_id)
    return len(insert(connection, session_id, messages, now))


def rewind(connection: sqlite3.Connection, session_id: str, message_id: int) -> Row:
    """Take a prompt and everything after it out of the conversation.

    Return the number of messages, the prompt, and the id of the last active message.
    """
    query = "SELECT * FROM messages WHERE session_id = ? AND id = ?"
    row = connection.execute(query, (session_id, message_id)).fetchone()
    if row is None:
        raise ValidationError(
            f"session `{session_id}` has no message `{message_id}`", fields=("message_id",)
        )
    if row["role"] != "user":
        raise ValidationError(
            f"message `{message_id}` has the role `{row['role']}`; a rewind goes back to a prompt",
            fields=("message_id",),
        )
    changed = connection.execute(
        "UPDATE messages SET active = 0 WHERE session_id = ? AND id >= ? AND active = 1",
        (session_id, message_id),
    )
    connection.execute(
        "UPDATE sessions SET rewind_count = rewind_count + 1 WHERE id = ?", (session_id,)
    )
    _recount(connection, session_id)
    (head,) = connection.execute(
        "SELECT MAX(id) FROM messages WHERE session_id = ? AND active = 1", (session_id,)
    ).fetchone()
    return {
        "rewound_count": changed.rowcount,
        "target_message": decode_message(row_of(row)),
        "new_head_id": head,
    }


def restore(connection: sqlite3.Connection, session_id: str, message_id: int) -> int:
    """Bring back the rewound messages from an id on. Return their number."""
    changed = connection.execute(
        "UPDATE messages SET active = 1 "
        "WHERE session_id = ? AND id >= ? AND active = 0 AND compacted = 0",
        (session_id, message_id),
    )
    _recount(connection, session_id)
    return changed.rowcount


def count(connection: sqlite3.Connection, session_id: str | None = None) -> int:
    """Return the number of stored messages, active or not, of one session or of all."""
    condition, values = ("", ()) if session_id is None else (" WHERE session_id = ?", (session_id,))
    query = f"SELECT COUNT(*) FROM messages{condition}"
    return int(connection.execute(query, values).fetchone()[0])


def _values(message: Message, timestamp: float, *, is_exported: bool) -> Row:
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise ValidationError("a message needs a `role`", fields=("role",))
    documents = {name: message.get(name) for name in _DOCUMENTS}
    given = message.get("timestamp")
    return {
        "role": encode_text(role),
        "content": encode_content(message.get("content")),
        "tool_calls": encode_json(message.get("tool_calls"), "tool_calls"),
        "timestamp": timestamp if given is None else encode_time(given, "timestamp"),
        "token_count": _whole(message.get("token_count")),
        "active": int(bool(message.get("active", 1))) if is_exported else 1,
        "compacted": int(bool(message.get("compacted", 0))) if is_exported else 0,
        **{name: encode_text(message.get(name)) for name in _TEXTS},
        **{
            name: encode_text(value)
            if is_exported and isinstance(value, str)
            else encode_json(value, name)
            for name, value in documents.items()
        },
    }


def _inserted(connection: sqlite3.Connection, values: tuple[object, ...]) -> int:
    number = connection.execute(_INSERT, values).lastrowid
    assert number is not None  # noqa: S101 - an insert into a table with row ids
    return number


def _replayed(row: Row) -> Row:
    """Return a message with the keys of a conversation; keys without a value are left out."""
    content = row["content"]
    if isinstance(content, str) and row["role"] in {"user", "assistant"}:
        content = content.strip()
    message: Row = {"role": row["role"], "content": content}
    for name in ("tool_call_id", "tool_name", "tool_calls"):
        if row[name]:
            message[name] = row[name]
    if row["role"] == "assistant":
        message |= {name: row[name] for name in _ANSWER_FIELDS if row[name]}
        message |= {name: decode_json(row[name]) for name in _DOCUMENTS if row[name]}
    return message


def _clear_counters(connection: sqlite3.Connection, session_id: str) -> None:
    connection.execute(
        "UPDATE sessions SET message_count = 0, tool_call_count = 0 WHERE id = ?", (session_id,)
    )


def _recount(connection: sqlite3.Connection, session_id: str) -> None:
    query = "SELECT tool_calls FROM messages WHERE session_id = ? AND active = 1"
    calls = [
        count_tool_calls(decode_json(text)) for (text,) in connection.execute(query, (session_id,))
    ]
    connection.execute(
        "UPDATE sessions SET message_count = ?, tool_call_count = ? WHERE id = ?",
        (len(calls), sum(calls), session_id),
    )


def _whole(value: object) -> int | None:
    if value is None or (isinstance(value, int) and abs(value) < _LARGEST_COUNT):
        return value
    raise ValidationError("`token_count` must be a whole number", fields=("token_count",))
