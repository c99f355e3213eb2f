"""The environment of stored results: everything they depend on besides the sources of the agents.

`InputFiles` is the state of the files that people and runs write: settings, recorded runs and
annotations. `StoredEnvironment` is the content of these files when a list was last written, so that
a list need not parse them as long as they are unchanged. Only `stat` is needed to find out:
installing or upgrading a package (another price catalog, a plugin) changes its directory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from amux._version import __version__
from amux.host import Host
from amux.index.database import IndexDatabase
from amux.index.errors import IndexUnavailableError
from amux.reading.snapshot import take_snapshot

TYPE_CHECKING = False  # importing `typing` takes a tenth of a fast list
if TYPE_CHECKING:
    from typing import Final

    from amux.config import Color

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
