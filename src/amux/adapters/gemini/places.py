"""Which directory a chat belongs to. Its file says only the hash, so the folder has to tell.

In order: the note in the folder, the list of all projects by folder name, the same list by hash.
All are small files; what cannot be read says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from amux.adapters._kit.streams import open_stream
from amux.adapters._kit.values import document, is_mapping, mapping, text

SETTINGS: Final = "settings.json"
_NOTE: Final = ".project_root"
_PROJECTS: Final = "projects.json"
_SMALL_FILE: Final = 4 << 20


def place_files(root: Path, folder: Path) -> tuple[Path, ...]:
    """The files that may say which directory a project's folder belongs to."""
    return folder / _NOTE, root / _PROJECTS


class Places:
    """The projects one store knows."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        self._folder = folder

    def __call__(self, project_hash: str | None) -> str | None:
        """The directory of the folder's project; None when nothing says it."""
        noted = _read(self._folder / _NOTE).decode("utf-8", "replace").strip()
        if noted:
            return noted
        projects = list(self._projects())
        for directory, name in projects:
            if name == self._folder.name:
                return directory
        hashes = {project_hash, self._folder.name}
        return next((one for one, _ in projects if hash_of(one) in hashes), None)

    def _projects(self) -> Iterator[tuple[str, object]]:
        yield from mapping(mapping(read_json(self._root / _PROJECTS)).get("projects")).items()


def hash_of(directory: str) -> str:
    """How the agent names a project in its older versions."""
    from hashlib import sha256  # loads OpenSSL

    return sha256(directory.encode("utf-8", "surrogatepass")).hexdigest()


def configured_model(root: Path) -> str | None:
    """The model the settings name."""
    model = mapping(read_json(root / SETTINGS)).get("model")
    while is_mapping(model):  # an upgrade nests the name once more
        model = model.get("name")
    return text(model)


def read_json(path: Path) -> Any:
    """The value of a small JSON file; None when there is none."""
    return document(_read(path))


def _read(path: Path) -> bytes:
    try:
        with open_stream(path) as stream:
            data = stream.read(_SMALL_FILE + 1)
    except OSError:
        return b""
    return data if len(data) <= _SMALL_FILE else b""
