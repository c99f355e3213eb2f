"""Where the texts of append-only sources were left, so that only what is new has to be read.

What stands behind that place belongs to the unit that was made of what stands before it.
"""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple

from amux.adapters._base import Checkpoint

CHECKPOINTS_TABLE: Final = """
CREATE TABLE IF NOT EXISTS text_rests (
  agent TEXT NOT NULL, path BLOB NOT NULL, unit INTEGER NOT NULL, offset INTEGER NOT NULL,
  state BLOB NOT NULL, size INTEGER NOT NULL, edge BLOB NOT NULL, PRIMARY KEY (agent, path)
) WITHOUT ROWID;
"""


class TextCheckpoint(NamedTuple):
    """How far a source was read into a unit, the size it had then, and what stood at its edges.

    Messages behind that place are in the unit as well, as far as they were there.
    """

    unit: int
    checkpoint: Checkpoint
    size: int
    prefix_digest: bytes


class TextCheckpoints:
    """The rests in one database, by agent and path."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def of(self, agent: str, path: bytes, maker: str) -> TextCheckpoint | None:
        """Where a source was left by the same maker; None: nowhere."""
        row = self._db.execute(
            "SELECT unit, CAST(offset AS INTEGER), CAST(state AS BLOB), CAST(size AS INTEGER),"
            " CAST(edge AS BLOB) FROM text_rests JOIN text_sources USING (agent, path)"
            " WHERE agent = ? AND path = ? AND maker = ?",
            (agent, path, maker),
        ).fetchone()
        if row is None:
            return None
        unit, offset, state, size, edge = row
        return TextCheckpoint(unit, Checkpoint(offset=offset, state=state), size, edge)

    def store(self, agent: str, path: bytes, rest: TextCheckpoint) -> None:
        """Note where a source was left."""
        checkpoint = rest.checkpoint
        self._db.execute(
            "INSERT OR REPLACE INTO text_rests VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                agent,
                path,
                rest.unit,
                checkpoint.offset,
                checkpoint.state,
                rest.size,
                rest.prefix_digest,
            ),
        )

    def discard(self, agent: str, path: bytes) -> None:
        """It has to be read from its beginning."""
        self._db.execute("DELETE FROM text_rests WHERE agent = ? AND path = ?", (agent, path))
