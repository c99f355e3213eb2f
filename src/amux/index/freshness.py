"""Decides whether stored results are current: nothing that they depend on has changed.

Importing this module loads no adapter, and checking opens no file but the index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from amux.index.database import IndexDatabase
from amux.index.errors import IndexDecodeError
from amux.reading.snapshot import BY_ADAPTER, take_snapshot

TYPE_CHECKING = False  # importing `typing` takes a tenth of a fast list
if TYPE_CHECKING:
    from typing import Literal

    Kind = Literal["sessions", "spending", "hours"]

TakeSnapshot = Callable[[Sequence[str], Sequence[str]], bytes]
"""Returns the snapshot of some roots and files, as `agent_snapshot` does."""


class Freshness:
    """The snapshots of the files that the stored results of each agent are based on."""

    def __init__(
        self,
        database: IndexDatabase,
        kind: Kind,
        fingerprint_for: Callable[[str], bytes],
        *,
        take_snapshot: TakeSnapshot | None = None,
        adapter_snapshot: Callable[[str, WatchedPaths], bytes] | None = None,
    ) -> None:
        self._database = database
        self._kind = kind
        self._fingerprint_for = fingerprint_for  # of the environment, for an agent
        self._take_snapshot = take_snapshot or agent_snapshot
        self._adapter_snapshot = adapter_snapshot  # for agents without files

    def record(self, agent: str, snapshot: bytes, paths: WatchedPaths) -> None:
        """Store the snapshot that the results of an agent are based on."""
        with self._database.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO freshness (agent, kind, environment, snapshot, paths)"
                " VALUES (?, ?, ?, ?, ?)",
                (agent, self._kind, self._fingerprint_for(agent), snapshot, paths.encode()),
            )

    def is_valid(self, agents: Iterable[str], env: Mapping[str, str]) -> bool:
        """Return whether the results of all these agents are current."""
        return all(self._is_agent_valid(agent, env) for agent in agents)

    def payloads(self, agents: Iterable[str]) -> list[bytes]:
        """Return what is stored besides rows, still encoded: problems, for the kind `sessions`."""
        with self._database.guarded() as connection:
            return [
                payload
                for agent in agents
                for (payload,) in connection.execute(
                    f"SELECT payload FROM result WHERE agent = ? AND kind = '{self._kind}'"  # noqa: S608 - a constant, so that SQLite uses the partial index
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
        snapshot, paths = row
        if any(env.get(name) != value for name, value in paths.env.items()):
            return False
        if snapshot.startswith(BY_ADAPTER):
            take = self._adapter_snapshot
            return take is not None and snapshot == take(agent, paths)
        return snapshot == self._take_snapshot(paths.roots, paths.files)

    def _row(self, agent: str) -> tuple[bytes, WatchedPaths] | None:
        with self._database.guarded() as connection:
            found: tuple[bytes, bytes] | None = connection.execute(
                "SELECT snapshot, paths FROM freshness"
                " WHERE agent = ? AND kind = ? AND environment = ?",
                (agent, self._kind, self._fingerprint_for(agent)),
            ).fetchone()
            return None if found is None else (found[0], WatchedPaths.decode(found[1]))


class WatchedPaths:
    """The paths of an agent: its roots, files outside of them, and the variables that decide them.

    They are stored as words separated by NUL, which no path contains: importing `json` would take
    longer than reading them.
    """

    __slots__ = ("env", "files", "roots")

    def __init__(
        self, roots: Sequence[str], files: Sequence[str], env: Mapping[str, str | None]
    ) -> None:
        self.roots = list(roots)
        self.files = list(files)
        self.env = env

    def encode(self) -> bytes:
        """Return the paths as bytes; a file name may be invalid Unicode."""
        words = [f"r{root}" for root in self.roots] + [f"f{path}" for path in self.files]
        for name, value in self.env.items():
            words.append(f"-{name}" if value is None else f"={name}={value}")
        return "\0".join(words).encode("utf-8", "surrogatepass")

    @classmethod
    def decode(cls, data: bytes) -> WatchedPaths:
        """Return the paths again; raise IndexDecodeError for bytes that `encode` did not write."""
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
    """Return the snapshot of an agent's files; b"" if it cannot be taken reliably now."""
    below, beside = take_snapshot(roots), take_snapshot((), files)
    return below + beside if below and beside else b""
