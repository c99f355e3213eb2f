"""Sessions as a search needs them: a light row of each, and the rest of those that are shown.

A session that is a sub-agent's is found through the one it belongs to and has no row here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from amux.index.database import IndexDatabase
from amux.model.trace import key_of


class SearchRow(NamedTuple):
    """What filters and ranking look at; see `results.SessionRow`."""

    row: int
    agent: str
    id: str
    sort_key: bytes
    names: str
    created: int
    updated: int
    usd: float
    cwd: str | None
    models: str
    title: str
    keys: bytes


def text_unit_key(agent: str, path: str, session_id: str) -> int:
    """A number for what one source says of one session."""
    return key_of(f"{agent}\n{path}\n{session_id}")


def search_rows(store: IndexDatabase, agents: Sequence[str]) -> list[SearchRow]:
    """Every session of some agents that may be found."""
    marks = ", ".join("?" * len(agents))
    with store.guarded() as database:
        rows = database.execute(
            "SELECT rowid, agent, id, tie, names, created, updated, usd, cwd, models, title, keys"  # noqa: S608 - question marks only
            f" FROM session WHERE agent IN ({marks}) AND places != x''",
            tuple(agents),
        )
        return list(map(SearchRow._make, rows))


def agents_with_rows(store: IndexDatabase) -> set[str]:
    """The agents that have any session."""
    with store.guarded() as database:
        return {agent for (agent,) in database.execute("SELECT DISTINCT agent FROM session")}


def whole_row(store: IndexDatabase, light: SearchRow) -> tuple[bytes, bytes] | None:
    """The summary of a session and where its messages lie, encoded; None: it is gone."""
    with store.guarded() as database:
        found: tuple[bytes, bytes] | None = database.execute(
            "SELECT body, places FROM session WHERE rowid = ? AND agent = ? AND id = ?",
            (light.row, light.agent, light.id),
        ).fetchone()
        return found
