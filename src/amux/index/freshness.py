"""Decides whether stored results are current: nothing that they depend on has changed.

Results depend on the files of their agents (`Freshness`) and on an environment: the version of
amux, the installed packages, the settings, recorded runs and annotations. `StoredEnvironment` holds
what those files said when a list was last stored, so that a list need not parse them while they are
unchanged; installing or upgrading a package changes the directory that contains it. Importing this
module loads no adapter, and checking opens no file but the index.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from amux._version import __version__
from amux.host import Host
from amux.index.database import IndexDatabase
from amux.index.errors import IndexDecodeError, IndexUnavailableError
from amux.reading.snapshot import BY_ADAPTER, take_snapshot

TYPE_CHECKING = False  # importing `typing` takes a tenth of a fast list
if TYPE_CHECKING:
    from typing import Final, Literal

    from amux.config import Color

    Kind = Literal["sessions", "spending", "hours"]


TakeSnapshot = Callable[[Sequence[str], Sequence[str]], bytes]
"""Returns the snapshot of some roots and files, as `agent_snapshot` does."""


class Freshness:
    """The snapshots of the files that the stored results of each agent are based on.

    A snapshot covers the results of every kind; `kind` says which of them `payloads` returns.
    """

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
                "INSERT OR REPLACE INTO freshness (agent, environment, snapshot, paths)"
                " VALUES (?, ?, ?, ?)",
                (agent, self._fingerprint_for(agent), snapshot, paths.encode()),
            )

    def is_valid(self, agents: Iterable[str], env: Mapping[str, str]) -> bool:
        """Return whether the results of all these agents are current."""
        return all(self._is_agent_valid(agent, env) for agent in agents)

    def payloads(self, agents: Iterable[str]) -> list[bytes]:
        """Return what is stored besides rows, still encoded: problems, for the kind `sessions`."""
        with self._database.guarded() as connection:
            return [
                body
                for agent in agents
                for (body,) in connection.execute(
                    "SELECT body FROM payload WHERE agent = ? AND kind = ?", (agent, self._kind)
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
                "SELECT snapshot, paths FROM freshness WHERE agent = ? AND environment = ?",
                (agent, self._fingerprint_for(agent)),
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


_SETTINGS: Final = ("config.yaml", "config.yml", "config.toml", "config.json")
_RUN_INDEX: Final = ("run-index.jsonl",)
_PACKAGES: Final = ("site-packages", "dist-packages")
_FIELDS: Final = (
    "state", "annotations", "fingerprint", "agents", "runs", "color", "timezone", "stars",
    "run_tags", "tags",
)  # fmt: skip


class InputFiles:
    """The settings files and run indexes of one client, as they were before it read them.

    `scope` identifies the set of files and the profile. `state` changes with their content and with
    the installed packages; b"" if a file changed so recently that it may change again unnoticed.
    """

    __slots__ = ("_annotations", "has_settings", "scope", "state")

    def __init__(self, host: Host, project_dir: Path | None, profile: str | None) -> None:
        folders = (host.config_dir(), *host.project_folders(project_dir))
        settings = [*_existing(folders, _SETTINGS)]
        files = [*settings, *_existing(folders, _RUN_INDEX)]
        snapshot = take_snapshot((), files)
        self.has_settings = bool(settings) or profile is not None
        self.scope = digest([repr(profile), *files])
        self.state = snapshot and snapshot + digest([str(host.home), *installation()])
        self._annotations = f"{host.data_dir()}{os.sep}annotations.jsonl"

    def annotations(self) -> str:
        """Return the state of the annotation file, as `Annotations.state`; "" if it is unknown."""
        try:
            found = os.stat(self._annotations)  # noqa: PTH116 - pathlib would be most of the time
        except FileNotFoundError:
            return "None"
        except OSError:
            return ""
        return str((found.st_ino, found.st_size, found.st_mtime_ns))


def installation() -> Iterator[str]:
    """Yield values that change when a package is installed, upgraded or removed."""
    yield from (__version__, sys.version)
    for path in sys.path:
        if path.endswith(_PACKAGES):
            try:
                found = os.stat(path)  # noqa: PTH116 - pathlib would be most of the time
            except OSError:
                continue
            yield from (path, str(found.st_size), str(found.st_mtime_ns))


def digest(lines: Iterable[str]) -> bytes:
    """Return a 16-byte digest of some texts."""
    from _blake2 import blake2b

    return blake2b("\n".join(lines).encode("utf-8", "surrogateescape"), digest_size=16).digest()


def _existing(folders: Iterable[Path], names: Iterable[str]) -> Iterator[str]:
    """Yield the files that exist or that may exist in an unreadable directory."""
    for folder in folders:
        for name in names:
            path = f"{folder}{os.sep}{name}"
            try:
                os.stat(path)  # noqa: PTH116 - pathlib would be most of the time
            except PermissionError:
                yield path  # reading it reports the error
            except OSError:
                continue
            else:
                yield path


def entries(text: str) -> list[list[str]]:
    """Return the fields of every line."""
    return [line.split("\0") for line in text.split("\n")] if text else []


class StoredEnvironment:
    """The environment in which a list was last written, stored in the index by `scope`.

    The texts consist of lines whose fields are separated by NUL: `agents` (all agents there are)
    and `stars` (unified ids) of one field, `runs` of an agent and the digest of its recorded costs,
    `run_tags` and `tags` of a unified id and tags as JSON strings. `annotations` is the state of
    the annotation file.
    """

    __slots__ = _FIELDS

    state: bytes
    annotations: str
    fingerprint: bytes
    agents: str
    runs: str
    color: Color
    timezone: str
    stars: str
    run_tags: str
    tags: str

    def __init__(self, **values: str | bytes) -> None:
        for name in _FIELDS:
            setattr(self, name, values[name])

    @classmethod
    def load(cls, database: IndexDatabase, files: InputFiles) -> StoredEnvironment | None:
        """Return the environment stored for these files; None if they have changed since."""
        try:
            if not files.state or not database.exists():
                return None
            with database.lock, database.guarded() as connection:
                row = connection.execute(
                    f"SELECT {', '.join(_FIELDS)} FROM environment WHERE scope = ? AND state = ?",  # noqa: S608 - our own words
                    (files.scope, files.state),
                ).fetchone()
        except IndexUnavailableError:
            return None
        return None if row is None else cls(**dict(zip(_FIELDS, row, strict=True)))

    def save(self, database: IndexDatabase, scope: bytes) -> None:
        """Store the environment unless it is stored already."""
        values = tuple(getattr(self, name) for name in _FIELDS)
        query = f"SELECT {', '.join(_FIELDS)} FROM environment WHERE scope = ?"  # noqa: S608 - our own words
        with database.guarded() as connection:
            if connection.execute(query, (scope,)).fetchone() == values:
                return
        with database.writing() as connection:
            connection.execute(
                f"INSERT OR REPLACE INTO environment (scope, {', '.join(_FIELDS)})"  # noqa: S608 - our own words
                f" VALUES ({', '.join('?' * (len(_FIELDS) + 1))})",
                (scope, *values),
            )

    def fingerprint_for(self, agent: str) -> bytes:
        """Return the fingerprint of everything the rows of an agent depend on, except sources."""
        runs = {fields[0]: fields[-1] for fields in entries(self.runs)}
        return self.fingerprint + runs.get(agent, "").encode()
