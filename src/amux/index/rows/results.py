"""What was made of the sources: sessions to list, and spending; cluster by cluster.

A result holds as long as the sources of its cluster do and as long as it rests on the same basis
(prices, settings, versions). `Result` says of one agent which clusters are to be made anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from amux.index.database import IndexDatabase

if TYPE_CHECKING:
    from amux.index.freshness import Kind

_SESSION_FIELDS: Final = (
    "agent", "cluster", "id", "tie", "names", "created", "updated", "turns", "usd", "is_least",
    "hidden", "kind", "cwd", "model", "models", "title", "version", "keys", "body", "places",
)  # fmt: skip
_ADD_SESSION: Final = (
    f"INSERT INTO session ({', '.join(_SESSION_FIELDS)})"  # noqa: S608 - names of our own
    f" VALUES ({', '.join('?' * len(_SESSION_FIELDS))})"
)


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session as a list needs it; `body` is its whole summary as indented JSON, without tags."""

    id: str
    sort_key: bytes  # what puts rows in order that are equal in what a list is sorted by
    names: str  # every id it can be found by, one per line
    created: int  # microseconds of the Unix time
    updated: int
    turns: int
    usd: float  # -1: nothing is known
    is_lower_bound: bool  # it has cost so much or more
    hidden: int  # a sum of `listing.SUBAGENT` and `ARCHIVED`
    kind: str
    cwd: str | None
    model: str | None
    models: str  # one per line, each between line ends
    title: str
    version: str | None  # of the agent
    body: bytes
    keys: bytes = b""  # an array of 64-bit `findable.place_key`s
    message_sources: bytes = b""  # where its messages lie; of a sub-agent, its parent knows


class ClusterResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one cluster came to."""

    sessions: Sequence[SessionRow] = ()
    payload: bytes = b""  # its spending, or the problems met


class ResultIndex:
    """The results of one kind for one agent."""

    def __init__(self, database: IndexDatabase, agent: str, kind: Kind) -> None:
        self._database = database
        self._agent = agent
        self._kind: Kind = kind

    def versions(self, basis: bytes) -> dict[int, bytes]:
        """Of every cluster whose result is kept: what it was made from."""
        with self._database.guarded() as connection:
            rows = connection.execute(
                "SELECT cluster, members FROM made WHERE agent = ? AND kind = ? AND basis = ?",
                (self._agent, self._kind, basis),
            )
            return dict(rows.fetchall())

    def are_current(self, made: Mapping[int, bytes], basis: bytes) -> bool:
        """Whether exactly these are kept: no other process has changed them meanwhile."""
        with self._database.guarded() as connection:
            rows = connection.execute(
                "SELECT cluster, members, basis FROM made WHERE agent = ? AND kind = ?",
                (self._agent, self._kind),
            )
            return {number: (members, own) for number, members, own in rows} == {
                number: (members, basis) for number, members in made.items()
            }

    def write(self, made: Sequence[tuple[int, bytes, ClusterResult]], *, basis: bytes) -> None:
        """Replace the results of some clusters: (number, what it was made from, result)."""
        with self._database.writing() as connection:
            self._discard(connection, [cluster for cluster, _, _ in made])
            connection.executemany(
                "INSERT INTO made (agent, kind, cluster, basis, members, payload)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (self._agent, self._kind, cluster, basis, members, one.payload)
                    for cluster, members, one in made
                ],
            )
            connection.executemany(
                _ADD_SESSION,
                [
                    (
                        self._agent, cluster, row.id, row.sort_key, row.names, row.created,
                        row.updated, row.turns, row.usd, row.is_lower_bound, row.hidden, row.kind,
                        row.cwd, row.model, row.models, row.title, row.version, row.keys, row.body,
                        row.message_sources,
                    )
                    for cluster, _, one in made
                    for row in one.sessions
                ],
            )  # fmt: skip

    def discard(self, clusters: Iterable[int]) -> None:
        """Drop the results of clusters that are no more."""
        numbers = list(clusters)
        if numbers:
            with self._database.writing() as connection:
                self._discard(connection, numbers)

    def _discard(self, connection: Any, clusters: Sequence[int]) -> None:
        # Whoever relied on all of them being there, must not any more.
        connection.execute(
            "DELETE FROM answer WHERE agent = ? AND kind = ?", (self._agent, self._kind)
        )
        keys = [(self._agent, number) for number in clusters]
        connection.executemany(
            f"DELETE FROM made WHERE agent = ? AND cluster = ? AND kind = '{self._kind}'",  # noqa: S608 - a word of our own
            keys,
        )
        if self._kind == "sessions":
            connection.executemany("DELETE FROM session WHERE agent = ? AND cluster = ?", keys)

    def all_versions(self) -> set[int]:
        """Every cluster that has a result, of whatever basis."""
        with self._database.guarded() as connection:
            rows = connection.execute(
                "SELECT cluster FROM made WHERE agent = ? AND kind = ?", (self._agent, self._kind)
            )
            return {number for (number,) in rows}
