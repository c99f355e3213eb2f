"""Usage statistics: what each model used, and which sessions used most."""

from __future__ import annotations

import sqlite3
from typing import Final

from amux.store.session_db.rows import Row, row_of

ESTIMATED_COST: Final = (
    "CASE WHEN estimated_cost_usd = 0 AND COALESCE(cost_status, 'unknown') = 'unknown' "
    "THEN NULL ELSE estimated_cost_usd END"
)
"""The estimated cost of a session; NULL if it is unknown, which the column also writes as 0."""


def usage_by_model(connection: sqlite3.Connection) -> list[Row]:
    """Return the sessions, tokens and cost of every model, the most expensive first.

    `total_cost` is None if no session of the model has a known cost, and a lower bound if
    `sessions_without_cost` is not zero.
    """
    rows = connection.execute(
        "SELECT model, COUNT(*) AS session_count, SUM(input_tokens) AS total_input, "
        f"SUM(output_tokens) AS total_output, SUM({ESTIMATED_COST}) AS total_cost, "
        f"COUNT(*) - COUNT({ESTIMATED_COST}) AS sessions_without_cost "
        "FROM sessions WHERE model IS NOT NULL GROUP BY model ORDER BY total_cost DESC, model"
    )
    return [row_of(row) for row in rows]


def top_sessions(connection: sqlite3.Connection, limit: int) -> list[Row]:
    """Return the sessions with the most tokens; their cost is None if it is unknown."""
    rows = connection.execute(
        "SELECT id, title, model, COALESCE(input_tokens, 0) + COALESCE(output_tokens, 0) "
        f"AS total_tokens, {ESTIMATED_COST} AS estimated_cost_usd "
        "FROM sessions ORDER BY total_tokens DESC, started_at DESC, rowid DESC LIMIT ?",
        (limit,),
    )
    return [row_of(row) for row in rows]
