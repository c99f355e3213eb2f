"""Titles: unique among the sessions that have one, and numbered along a lineage.

The sessions "Fix build", "Fix build #2" and "Fix build #3" form a lineage: the first title is its
base, and the session that started last is the one that its name stands for.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from typing import Final

from amux.errors import TitleInUseError, ValidationError
from amux.store.session_db import lineage
from amux.store.session_db.rows import Row, encode_text, row_of

LONGEST: Final = 100
"""The most characters of a title."""

_NUMBERED: Final = re.compile(r"(.*) #([0-9]+)", re.DOTALL)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]")
_INVISIBLE: Final = re.compile(
    "[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffc]"
)  # zero-width characters, marks of direction, separators and annotation marks


def sanitize(title: str | None) -> str | None:
    """Return a title as it is stored; None if nothing is left of it.

    Control and invisible characters are removed, white space is folded. Raises `ValidationError`
    if the title is too long.
    """
    text = _cleaned(title or "")
    if len(text) > LONGEST:
        raise ValidationError(
            f"the title has {len(text)} characters, and {LONGEST} are allowed", fields=("title",)
        )
    return text or None


def assign(
    connection: sqlite3.Connection,
    session_id: str,
    title: str | None,
    *,
    only_if_empty: bool = False,
) -> bool:
    """Set or clear the title of a session. Return False if the session does not exist.

    Raises `TitleInUseError` if another session has the title, unless the session continues that
    one after a compression: the title then moves. With `only_if_empty`, a session that has a title
    keeps it, and the result is False.
    """
    text = sanitize(title)
    found = connection.execute("SELECT title FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if found is None or (only_if_empty and found[0] is not None):
        return False
    if text is not None:
        _free(connection, text, session_id)
    connection.execute("UPDATE sessions SET title = ? WHERE id = ?", (text, session_id))
    return True


def title_of(connection: sqlite3.Connection, session_id: str) -> str | None:
    """Return the title of a session; None if it has none or does not exist."""
    found = connection.execute("SELECT title FROM sessions WHERE id = ?", (session_id,)).fetchone()
    return None if found is None else found[0]


def holder(connection: sqlite3.Connection, title: str) -> Row | None:
    """Return the session that has exactly this title."""
    found = connection.execute("SELECT * FROM sessions WHERE title = ?", (title,)).fetchone()
    return None if found is None else row_of(found)


def resolve(connection: sqlite3.Connection, title: str) -> str | None:
    """Return the session that a title stands for: the last one of its lineage."""
    base = _cleaned(title)
    rows = _lineage(connection, base)
    numbered = [row for row in rows if row["title"] != base] or rows
    latest = max(numbered, key=lambda row: (row["started_at"], row["rowid"]), default=None)
    return None if latest is None else str(latest["id"])


def next_in_lineage(connection: sqlite3.Connection, title: str) -> str:
    """Return the title that the next session of a lineage gets; the base if it is free.

    A number at the end of the given title is not part of the base.
    """
    base, _ = _split(_cleaned(title))
    numbers = [_number(row["title"], base) for row in _lineage(connection, base)]
    return f"{base} #{max(numbers) + 1}" if numbers else base


def number_duplicates(connection: sqlite3.Connection) -> int:
    """Give the later sessions of a doubled title the next titles of its lineage.

    Return the number of changed titles.
    """
    rows = connection.execute(
        "SELECT id, title FROM sessions WHERE title IN ("
        "SELECT title FROM sessions WHERE title IS NOT NULL GROUP BY title HAVING COUNT(*) > 1"
        ") ORDER BY started_at, rowid"
    ).fetchall()
    sessions: dict[str, list[str]] = defaultdict(list)
    for session_id, title in rows:
        sessions[title].append(session_id)
    later = [(title, each) for title, ids in sessions.items() for each in ids[1:]]
    for title, session_id in later:
        connection.execute(
            "UPDATE sessions SET title = ? WHERE id = ?",
            (next_in_lineage(connection, title), session_id),
        )
    return len(later)


def _cleaned(title: str) -> str:
    text = _INVISIBLE.sub("", _CONTROLS.sub("", encode_text(title) or ""))
    return " ".join(text.split())


def _free(connection: sqlite3.Connection, title: str, session_id: str) -> None:
    """Take a title from an earlier part of the same conversation; raise if another one has it."""
    other = holder(connection, title)
    if other is None or other["id"] == session_id:
        return
    if other["id"] not in lineage.continued_by(connection, session_id):
        raise TitleInUseError(
            f"session `{other['id']}` has the title `{title}`", title=title, holder=other["id"]
        )
    connection.execute("UPDATE sessions SET title = NULL WHERE id = ?", (other["id"],))


def _lineage(connection: sqlite3.Connection, base: str) -> list[sqlite3.Row]:
    """Return the sessions whose title is the base or the base with a number."""
    rows = connection.execute(
        "SELECT rowid, id, title, started_at FROM sessions "
        "WHERE title = ? OR substr(title, 1, ?) = ?",
        (base, len(base) + 2, f"{base} #"),
    )
    return [row for row in rows if row["title"] == base or _split(row["title"])[0] == base]


def _number(title: str, base: str) -> int:
    return 1 if title == base else _split(title)[1]


def _split(title: str) -> tuple[str, int]:
    """Return the base of a title and its number; 1 for a title without a number."""
    found = _NUMBERED.fullmatch(title)
    return (title, 1) if found is None else (found[1], int(found[2]))
