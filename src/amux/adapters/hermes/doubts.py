r"""Where the full-text index of state.db cannot be relied on: sessions to be looked at themselves.

A search compares folded texts: `café` is found as `cafe`, `\uff21` as `a`, and thinking is searched
like anything else. The agent's trigrams know case and nothing more, hold neither thinking nor what
JSON escapes stand for, and end at a NUL. For ASCII words they are reliable in all other rows.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from typing import Final

from amux.adapters._kit.tables import columns, quoted

_INDEX: Final = "messages_fts_trigram"
_TEXTS: Final = (
    "content",
    "tool_name",
    "tool_calls",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
)

FOLDED: Final = (
    "\u00aa-\u024f\u02b0-\u036f\u1d00-\u1eff\u2070-\u20bf\u2100-\u218f\u2460-\u24ff\u2c60-\u2c7f"
    "\u3200-\u33ff\ua720-\ua7ff\ufb00-\ufb06\ufe33-\ufe4f\uff00-\uffef\U00010780-\U000107bf"
    "\U0001d400-\U0001d7ff\U0001f100-\U0001f1ff\U0001fbf0-\U0001fbff"
)
"""Ranges that hold every character of which folding makes an ASCII letter or digit, or nothing."""

_ODD: Final = f"*[{FOLDED}]*"


def doubtful_sessions(connection: sqlite3.Connection) -> list[str]:
    """The sessions with a text that the index may not find; no text leaves the database."""
    names = columns(connection, "messages")
    if "session_id" not in names:
        return []
    indexed = _indexed_columns(connection)
    others = [name for name in _TEXTS if name in names and name not in indexed]
    doubts = [doubt for name in indexed if name in names for doubt in _doubts(quoted(name))]
    doubts += [f"{quoted(name)} <> ''" for name in others]
    known = f"SELECT id FROM {quoted(_INDEX + '_docsize')}" if indexed else "NULL"  # noqa: S608 - constants
    doubts.append(f"coalesce(rowid NOT IN ({known}), 1)")
    statement = f"SELECT DISTINCT session_id FROM messages WHERE {' OR '.join(doubts)}"  # noqa: S608 - quoted names
    found = connection.execute(statement, {"odd": _ODD})
    return [str(session_id) for (session_id,) in found if session_id is not None]


def _doubts(column: str) -> Sequence[str]:
    return (
        f"{column} GLOB :odd",
        f"instr({column}, '\\u')",
        f"instr(CAST({column} AS BLOB), x'00')",
    )


def _indexed_columns(connection: sqlite3.Connection) -> list[str]:
    """What the agent puts into the index, as its trigger says; nothing if there is none."""
    found = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE name IN (?, ?, ?)",
        (_INDEX, f"{_INDEX}_docsize", f"{_INDEX}_insert"),
    )
    definitions = {str(name): str(sql) for name, sql in found}
    if len(definitions) < 3:  # noqa: PLR2004 - all of them
        return []
    trigger = definitions[f"{_INDEX}_insert"].lower()
    return [name for name in _TEXTS if re.search(rf"\bnew\.{name}\b", trigger)]
