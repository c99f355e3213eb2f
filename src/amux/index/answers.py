"""Whether an answer that was given before can be given again: nothing it rests on has changed.

This is the quick way: no adapter is imported and no file opened but the index itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

from amux.index.snapshot import take_snapshot
from amux.index.store import Store

Kind = Literal["sessions", "spending", "hours"]

EVERYBODY: Final = "*"
"""Stands for all agents; its record says which these are."""


Look = Callable[[Sequence[str], Sequence[str]], bytes]
"""Tells the state of an agent's places, as `look_at` does."""


class Answers:
    """What was looked at for an answer, agent by agent."""

    def __init__(self, store: Store, kind: Kind, basis: bytes, *, look: Look | None = None) -> None:
        self._store = store
        self._kind = kind
        self._basis = basis
        self._look = look or look_at

    def remember(
        self,
        agent: str,
        snapshot: bytes,
        *,
        roots: Sequence[str] = (),
        files: Sequence[str] = (),
        env: Mapping[str, str | None] | None = None,
    ) -> None:
        """Note what the results of an agent rest on."""
        places = json.dumps({"roots": [*roots], "files": [*files], "env": dict(env or {})})
        with self._store.writing() as database:
            database.execute(
                "INSERT OR REPLACE INTO answer (agent, kind, basis, snapshot, places)"
                " VALUES (?, ?, ?, ?, ?)",
                (agent, self._kind, self._basis, snapshot, places),
            )

    def remember_everybody(self, agents: Sequence[str]) -> None:
        """Note which agents there are."""
        self.remember(EVERYBODY, b"", roots=agents)

    def everybody(self) -> list[str] | None:
        """All agents, if that is known."""
        row = self._row(EVERYBODY)
        return None if row is None else list(json.loads(row[1])["roots"])  # noqa: TID251 - our own text, and msgspec is slow to load

    def still_hold(self, agents: Iterable[str], env: Mapping[str, str]) -> bool:
        """Whether nothing has changed for any of these agents."""
        return all(self._holds(agent, env) for agent in agents)

    def payloads(self, agents: Iterable[str]) -> list[bytes]:
        """What is kept besides rows: problems, still encoded."""
        with self._store.guarded() as database:
            return [
                payload
                for agent in agents
                for (payload,) in database.execute(
                    "SELECT payload FROM made WHERE agent = ? AND kind = ? AND payload != x''",
                    (agent, self._kind),
                )
            ]

    def state(self, agent: str) -> bytes:
        """What stands for everything the agent's results rest on; b"" when it cannot be told."""
        row = self._row(agent)
        return self._basis + row[0] if row is not None and row[0] else b""

    def _holds(self, agent: str, env: Mapping[str, str]) -> bool:
        row = self._row(agent)
        if row is None or not row[0]:
            return False
        places = json.loads(row[1])  # noqa: TID251 - likewise
        if any(env.get(name) != value for name, value in places["env"].items()):
            return False
        return row[0] == self._look(places["roots"], places["files"])

    def _row(self, agent: str) -> tuple[bytes, str] | None:
        with self._store.guarded() as database:
            found: tuple[bytes, str] | None = database.execute(
                "SELECT snapshot, places FROM answer WHERE agent = ? AND kind = ? AND basis = ?",
                (agent, self._kind, self._basis),
            ).fetchone()
            return found


def look_at(roots: Sequence[str], files: Sequence[str]) -> bytes:
    """The state of an agent's places; b"" while it cannot be told."""
    below, beside = take_snapshot(roots), take_snapshot((), files)
    return below + beside if below and beside else b""
