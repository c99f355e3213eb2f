"""How many sessions of each agent are kept, and from when to when: one query, no summary read."""

from __future__ import annotations

from typing import Final, NamedTuple

from amux.index.database import IndexDatabase
from amux.index.rows.query import SUBAGENT

_VISIBLE: Final = f"agent = :agent AND hidden & {SUBAGENT} = 0"
_SPAN: Final = f"SELECT count(*), min(created), max(updated) FROM session WHERE {_VISIBLE}"  # noqa: S608 - our own words
_VERSION: Final = f"SELECT version FROM session WHERE {_VISIBLE} ORDER BY updated DESC, tie LIMIT 1"  # noqa: S608 - likewise
_SIZE: Final = "SELECT coalesce(sum(size), 0) FROM source WHERE agent = :agent"


class AgentCounts(NamedTuple):
    """The sessions of one agent, sub-agents left out. Times are microseconds of the Unix time."""

    sessions: int
    oldest: int | None
    newest: int | None
    version: str | None  # of the agent, in the session that changed last
    size: int  # bytes of its sources


def agent_counts(store: IndexDatabase, agent: str) -> AgentCounts:
    """What is kept of one agent."""
    if not store.exists():
        return AgentCounts(0, None, None, None, 0)
    values = {"agent": agent}
    with store.guarded() as database:
        sessions, oldest, newest = database.execute(_SPAN, values).fetchone()
        version = database.execute(_VERSION, values).fetchone() if sessions else None
        (size,) = database.execute(_SIZE, values).fetchone()
    return AgentCounts(sessions, oldest, newest, version and version[0], size)
