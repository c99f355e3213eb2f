"""Rows of sessions: created, ended, reopened, counted, found by id; and the key/value table."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from amux.errors import AmbiguousIdError, SessionNotFoundError, ValidationError
from amux.store.session_db.rows import Row, encode_json, encode_text, encode_time, row_of

COUNTERS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "api_call_count",
)
"""Columns that `add_usage` raises or sets."""

_METADATA: Final = ("user_id", "model", "model_config", "system_prompt", "parent_session_id", "cwd")
_CANDIDATES: Final = 10


class Usage(NamedTuple):
    """Tokens, calls and costs, to be added to those of a session; None stands for unknown."""

    counts: dict[str, int]
    estimated_cost_usd: float | None = None
    actual_cost_usd: float | None = None
    labels: dict[str, str | None] = {}
    fallbacks: dict[str, str | None] = {}


def create(
    connection: sqlite3.Connection,
    session_id: str,
    source: str,
    *,
    started_at: float,
    metadata: dict[str, Any],
) -> None:
    """Insert a session. Of a session that exists, fill only the metadata that it lacks."""
    _require_text(session_id=session_id, source=source)
    values = {name: encode_text(metadata.get(name)) for name in _METADATA}
    values["model_config"] = encode_model_config(metadata.get("model_config"))
    parent = values["parent_session_id"]
    if parent is not None:
        require(connection, parent)
    filled = ", ".join(f"{name} = COALESCE({name}, excluded.{name})" for name in _METADATA)
    connection.execute(
        f"INSERT INTO sessions(id, source, started_at, {', '.join(_METADATA)}) "
        f"VALUES (?, ?, ?, {', '.join('?' * len(_METADATA))}) "
        f"ON CONFLICT(id) DO UPDATE SET {filled}",
        (
            session_id,
            encode_text(source),
            encode_time(started_at, "started_at"),
            *values.values(),
        ),
    )


def encode_model_config(value: object) -> str | None:
    """Return the configuration of a model as JSON; text is taken as JSON already."""
    return encode_text(value) if isinstance(value, str) else encode_json(value, "model_config")


def end(connection: sqlite3.Connection, session_id: str, reason: str, now: float) -> None:
    """Mark a session as ended, unless it has ended: the first reason stays."""
    connection.execute(
        "UPDATE sessions SET ended_at = ?, end_reason = ? WHERE id = ? AND ended_at IS NULL",
        (now, encode_text(reason), session_id),
    )


def reopen(connection: sqlite3.Connection, session_id: str) -> None:
    """Clear the end of a session."""
    connection.execute(
        "UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = ?", (session_id,)
    )


def get(connection: sqlite3.Connection, session_id: str) -> Row | None:
    """Return a session; None if it does not exist."""
    found = connection.execute("SELECT * FROM sessions WHERE id = ?", (session_id,)).fetchone()
    return None if found is None else row_of(found)


def require(connection: sqlite3.Connection, session_id: str) -> None:
    """Raise `SessionNotFoundError` unless the session exists."""
    found = connection.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if found is None:
        raise SessionNotFoundError(f"no session `{session_id}` in the database")


def resolve_id(connection: sqlite3.Connection, prefix: str) -> str | None:
    """Return the id that equals the text, else the only id that begins with it; None if none does.

    Raises `AmbiguousIdError` if several ids begin with the text.
    """
    if not prefix:
        return None
    rows = connection.execute(
        "SELECT id FROM sessions WHERE substr(id, 1, ?) = ? "
        "ORDER BY id != ?, started_at DESC, id LIMIT ?",
        (len(prefix), prefix, prefix, _CANDIDATES),
    )
    found = [found for (found,) in rows]
    if not found or found[0] == prefix or len(found) == 1:
        return found[0] if found else None
    raise AmbiguousIdError(
        f"several sessions begin with `{prefix}`", candidates=found, hint="give more of the id"
    )


def set_value(connection: sqlite3.Connection, session_id: str, column: str, value: object) -> bool:
    """Set one column of a session. Return whether the session exists."""
    done = connection.execute(
        f"UPDATE sessions SET {column} = ? WHERE id = ?",
        (encode_text(value) if isinstance(value, str) else value, session_id),
    )
    return done.rowcount > 0


def set_archived(connection: sqlite3.Connection, ids: Iterable[str], *, archived: bool) -> bool:
    """Mark sessions as archived or not. Return whether one of them exists."""
    changed = [set_value(connection, each, "archived", int(archived)) for each in ids]
    return any(changed)


def add_usage(
    connection: sqlite3.Connection, session_id: str, usage: Usage, *, absolute: bool
) -> None:
    """Add usage to a session, or set its counters. Raises `SessionNotFoundError`.

    The estimated cost becomes a number with the first addition, 0.0 while no cost is known:
    `cost_status` says whether it means anything. `labels` replace what the session has, and
    `fallbacks` fill what it lacks.
    """
    require(connection, session_id)
    unknown = sorted(set(usage.counts) - set(COUNTERS))
    if unknown:
        raise ValidationError(f"no counters {unknown}", fields=unknown)
    changes: dict[str, tuple[str, object]] = {
        name: ("?" if absolute else f"COALESCE({name}, 0) + ?", count)
        for name, count in usage.counts.items()
    }
    estimate, actual = usage.estimated_cost_usd, usage.actual_cost_usd
    if absolute:
        changes["estimated_cost_usd"] = ("COALESCE(?, estimated_cost_usd)", estimate)
        changes["actual_cost_usd"] = ("COALESCE(?, actual_cost_usd)", actual)
    else:
        changes["estimated_cost_usd"] = ("COALESCE(estimated_cost_usd, 0.0) + ?", estimate or 0.0)
        if actual is not None:
            changes["actual_cost_usd"] = ("COALESCE(actual_cost_usd, 0.0) + ?", actual)
    for name, label in usage.labels.items():
        changes[name] = (f"COALESCE(?, {name})", encode_text(label))
    for name, label in usage.fallbacks.items():
        changes[name] = (f"COALESCE({name}, ?)", encode_text(label))
    assignments = ", ".join(f"{name} = {formula}" for name, (formula, _) in changes.items())
    connection.execute(
        f"UPDATE sessions SET {assignments} WHERE id = ?",
        (*(value for _, value in changes.values()), session_id),
    )


def get_meta(connection: sqlite3.Connection, key: str) -> str | None:
    """Return a value of the key/value table; None if the key is not set."""
    query = "SELECT value FROM state_meta WHERE key = ?"
    found = connection.execute(query, (key,)).fetchone()
    return None if found is None else found[0]


def set_meta(connection: sqlite3.Connection, key: str, value: str) -> None:
    """Set a value of the key/value table."""
    connection.execute(
        "INSERT INTO state_meta(key, value) VALUES (?, ?) "
        "ON CONFLICT(key) DO UPDATE SET value = excluded.value",
        (encode_text(key), encode_text(value)),
    )


def _require_text(**fields: object) -> None:
    for name, value in fields.items():
        if not isinstance(value, str) or not value:
            raise ValidationError(f"`{name}` must be a text that is not empty", fields=(name,))
