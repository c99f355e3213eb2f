"""Whether an answer that was given before can be given again: nothing it rests on has changed.

This is the quick way: no adapter is imported and no file opened but the index itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from amux.index.database import IndexDatabase
from amux.index.errors import IndexDecodeError
from amux.reading.snapshot import BY_ADAPTER, take_snapshot

TYPE_CHECKING = False  # `typing` would be a tenth of a quick list
if TYPE_CHECKING:
    from typing import Literal

    Kind = Literal["sessions", "spending", "hours"]

TakeSnapshot = Callable[[Sequence[str], Sequence[str]], bytes]
"""Tells the state of an agent's places, as `look_at` does."""


class Freshness:
    """What was looked at for an answer, agent by agent."""

    def __init__(
        self,
        database: IndexDatabase,
        kind: Kind,
        fingerprint_for: Callable[[str], bytes],
        *,
        look: TakeSnapshot | None = None,
        ask: Callable[[str, WatchedPaths], bytes] | None = None,
    ) -> None:
        self._database = database
        self._kind = kind
        self._fingerprint_for = fingerprint_for  # of the environment, for an agent
        self._look = look or agent_snapshot
        self._ask = ask  # tells the state of an agent that only its adapter can tell

    def record(
        self,
        agent: str,
        snapshot: bytes,
        *,
        roots: Sequence[str] = (),
        files: Sequence[str] = (),
        env: Mapping[str, str | None] | None = None,
    ) -> None:
        """Note what the results of an agent rest on."""
        places = WatchedPaths(roots, files, env or {})
        with self._database.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO answer (agent, kind, basis, snapshot, places)"
                " VALUES (?, ?, ?, ?, ?)",
                (agent, self._kind, self._fingerprint_for(agent), snapshot, places.encode()),
            )

    def is_valid(self, agents: Iterable[str], env: Mapping[str, str]) -> bool:
        """Whether nothing has changed for any of these agents."""
        return all(self._is_agent_valid(agent, env) for agent in agents)

    def payloads(self, agents: Iterable[str]) -> list[bytes]:
        """What is kept besides rows: problems, still encoded."""
        with self._database.guarded() as connection:
            return [
                payload
                for agent in agents
                for (payload,) in connection.execute(
                    f"SELECT payload FROM made WHERE agent = ? AND kind = '{self._kind}'"  # noqa: S608 - a word of our own, which an index knows
                    " AND payload != x''",
                    (agent,),
                )
            ]

    def snapshot(self, agent: str) -> bytes:
        """Return the snapshot of the files that the agent's results are based on; b"" if none."""
        row = self._row(agent)
        return b"" if row is None else row[0]

    def _is_agent_valid(self, agent: str, env: Mapping[str, str]) -> bool:
        row = self._row(agent)
        if row is None or not row[0]:
            return False
        snapshot, places = row
        if any(env.get(name) != value for name, value in places.env.items()):
            return False
        if snapshot.startswith(BY_ADAPTER):
            return self._ask is not None and snapshot == self._ask(agent, places)
        return snapshot == self._look(places.roots, places.files)

    def _row(self, agent: str) -> tuple[bytes, WatchedPaths] | None:
        with self._database.guarded() as connection:
            found: tuple[bytes, bytes] | None = connection.execute(
                "SELECT snapshot, places FROM answer WHERE agent = ? AND kind = ? AND basis = ?",
                (agent, self._kind, self._fingerprint_for(agent)),
            ).fetchone()
            return None if found is None else (found[0], WatchedPaths.decode(found[1]))


class WatchedPaths:
    """Where an agent's files are: folders, files outside of them, and the variables that say so.

    Kept as words with a NUL between them, which is in no path: JSON would take longer to import
    than these take to read.
    """

    __slots__ = ("env", "files", "roots")

    def __init__(
        self, roots: Sequence[str], files: Sequence[str], env: Mapping[str, str | None]
    ) -> None:
        self.roots = list(roots)
        self.files = list(files)
        self.env = env

    def encode(self) -> bytes:
        """As bytes; a file name may hold what is no Unicode."""
        words = [f"r{root}" for root in self.roots] + [f"f{path}" for path in self.files]
        for name, value in self.env.items():
            words.append(f"-{name}" if value is None else f"={name}={value}")
        return "\0".join(words).encode("utf-8", "surrogatepass")

    @classmethod
    def decode(cls, data: bytes) -> WatchedPaths:
        """The places again; raises IndexDecodeError for what `encode` has not made."""
        try:
            words = bytes(data).decode("utf-8", "surrogatepass").split("\0")
        except (UnicodeDecodeError, TypeError) as error:
            raise IndexDecodeError(str(error)) from error
        env: dict[str, str | None] = {word[1:]: None for word in words if word[:1] == "-"}
        for word in words:
            if word[:1] == "=":
                name, _, value = word[1:].partition("=")
                env[name] = value
        roots = [word[1:] for word in words if word[:1] == "r"]
        return cls(roots, [word[1:] for word in words if word[:1] == "f"], env)


def agent_snapshot(roots: Sequence[str], files: Sequence[str]) -> bytes:
    """The state of an agent's places; b"" while it cannot be told."""
    below, beside = take_snapshot(roots), take_snapshot((), files)
    return below + beside if below and beside else b""
