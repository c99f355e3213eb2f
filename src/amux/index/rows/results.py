"""Stores the results of clusters: rows of sessions, their spending and problems; counts sessions.

A result is current as long as the versions of the cluster's sources and the environment (prices,
settings, versions of amux and the adapter) are unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from amux.index.database import IndexDatabase
from amux.index.rows.query import SUBAGENT

_SESSION_FIELDS: Final = (
    "agent", "cluster", "id", "sort_key", "names", "created", "updated", "turns", "usd",
    "incomplete", "hidden", "kind", "cwd", "model", "models", "title", "version", "keys",
    "body", "message_sources",
)  # fmt: skip
_ADD_SESSION: Final = (
    f"INSERT INTO session ({', '.join(_SESSION_FIELDS)})"  # noqa: S608 - constants
    f" VALUES ({', '.join('?' * len(_SESSION_FIELDS))})"
)


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session as the index lists it; `body` is its summary as indented JSON without tags."""

    id: str
    sort_key: bytes  # the order of rows that are equal in the column a list is sorted by
    names: str  # all ids and aliases, one per line
    created: int  # microseconds of the Unix time
    updated: int
    turns: int
    usd: float  # -1 if it is unknown
    incomplete: str  # why `usd` is not exact, or unknown, separated by spaces
    hidden: int  # a sum of `query.SUBAGENT` and `ARCHIVED`
    kind: str
    cwd: str | None
    model: str | None
    models: str  # one per line, each between line ends
    title: str
    version: str | None  # of the agent
    body: bytes
    keys: bytes = b""  # an array of 64-bit `stored_session.text_unit_key`s
    message_sources: bytes = b""  # encoded; those of a sub-agent are in the row of its parent


class ClusterResult(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is stored of the sessions of one cluster."""

    sessions: Sequence[SessionRow] = ()
    payloads: Mapping[str, bytes] = {}  # encoded, by `freshness.Kind`


class ResultIndex:
    """The results of one agent."""

    def __init__(self, database: IndexDatabase, agent: str) -> None:
        self._database = database
        self._agent = agent

    def versions(self) -> dict[int, tuple[bytes, bytes]]:
        """Return the version and the environment of the stored result of every cluster."""
        with self._database.guarded() as connection:
            rows = connection.execute(
                "SELECT cluster, members, environment FROM result WHERE agent = ?", (self._agent,)
            )
            return {cluster: (members, environment) for cluster, members, environment in rows}

    def write(
        self, results: Sequence[tuple[int, bytes, ClusterResult]], *, environment: bytes
    ) -> None:
        """Replace the results of some clusters, given as (cluster, version, result)."""
        with self._database.writing() as connection:
            self._discard(connection, [cluster for cluster, _, _ in results])
            connection.executemany(
                "INSERT INTO result (agent, cluster, environment, members) VALUES (?, ?, ?, ?)",
                [(self._agent, cluster, environment, members) for cluster, members, _ in results],
            )
            connection.executemany(
                "INSERT INTO payload (agent, kind, cluster, body) VALUES (?, ?, ?, ?)",
                [
                    (self._agent, kind, cluster, body)
                    for cluster, _, one in results
                    for kind, body in one.payloads.items()
                ],
            )
            connection.executemany(
                _ADD_SESSION,
                [
                    (
                        self._agent, cluster, row.id, row.sort_key, row.names, row.created,
                        row.updated, row.turns, row.usd, row.incomplete, row.hidden, row.kind,
                        row.cwd, row.model, row.models, row.title, row.version, row.keys, row.body,
                        row.message_sources,
                    )
                    for cluster, _, one in results
                    for row in one.sessions
                ],
            )  # fmt: skip

    def discard(self, numbers: Collection[int]) -> None:
        """Delete the results of clusters that do not exist any more."""
        if numbers:
            with self._database.writing() as connection:
                self._discard(connection, numbers)

    def _discard(self, connection: Any, numbers: Collection[int]) -> None:
        # In the same transaction: the results of the agent are not complete any more.
        connection.execute("DELETE FROM freshness WHERE agent = ?", (self._agent,))
        keys = [(self._agent, number) for number in numbers]
        connection.executemany("DELETE FROM result WHERE agent = ? AND cluster = ?", keys)
        connection.executemany("DELETE FROM session WHERE agent = ? AND cluster = ?", keys)
        connection.executemany(
            "DELETE FROM payload WHERE agent = ? AND kind IN ('sessions', 'spending', 'hours')"
            " AND cluster = ?",
            keys,
        )


_VISIBLE: Final = f"agent = :agent AND hidden & {SUBAGENT} = 0"
_SPAN: Final = f"SELECT count(*), min(created), max(updated) FROM session WHERE {_VISIBLE}"  # noqa: S608 - constants
_VERSION: Final = (
    f"SELECT version FROM session WHERE {_VISIBLE}"  # noqa: S608 - constants
    " ORDER BY updated DESC, sort_key LIMIT 1"
)
_SIZE: Final = "SELECT coalesce(sum(size), 0) FROM source WHERE agent = :agent"


class AgentCounts(NamedTuple):
    """The sessions of one agent without sub-agents. Times are microseconds of the Unix time."""

    sessions: int
    oldest: int | None
    newest: int | None
    version: str | None  # of the agent, in the session that changed last
    size: int  # bytes of its sources


def stored_counts(database: IndexDatabase, agent: str) -> tuple[int, int, int]:
    """Return the number of stored sources, of listed sessions and of listed sub-agents."""
    with database.guarded() as connection:
        (sources,) = connection.execute(
            "SELECT count(*) FROM source WHERE agent = ?", (agent,)
        ).fetchone()
        sessions, subagents = connection.execute(
            "SELECT count(*), coalesce(sum(hidden & ? != 0), 0) FROM session WHERE agent = ?",
            (SUBAGENT, agent),
        ).fetchone()
    return sources, sessions - subagents, subagents


def indexed_bytes(database: IndexDatabase) -> int:
    """Return the size of all sources when they were indexed."""
    with database.guarded() as connection:
        size: int = connection.execute("SELECT coalesce(sum(size), 0) FROM source").fetchone()[0]
        return size


def agent_counts(database: IndexDatabase, agent: str) -> AgentCounts:
    """Return the counts of one agent."""
    if not database.exists():
        return AgentCounts(0, None, None, None, 0)
    values = {"agent": agent}
    with database.guarded() as connection:
        sessions, oldest, newest = connection.execute(_SPAN, values).fetchone()
        version = connection.execute(_VERSION, values).fetchone() if sessions else None
        (size,) = connection.execute(_SIZE, values).fetchone()
    return AgentCounts(sessions, oldest, newest, version and version[0], size)
