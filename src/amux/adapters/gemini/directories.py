"""Finds the working directory that a project's folder stands for, and proves it by its hash.

A chat records only the SHA-256 of its working directory, which older versions also use as the name
of the folder. The directory itself is taken from, in this order:

1. the note in the folder;
2. the list of all projects, by the name of the folder;
3. a directory that has the hash: one that the list of projects, the settings for trusted folders,
   the notes of other folders, the chat itself or some other chats in its folder name, a parent of
   one of these, or the directory that contains the store.

A directory without a proof is not used. Little is read of each file; one that cannot be read is
ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any, Final

from amux.adapters._base import SourceRef
from amux.adapters._kit.streams import open_stream
from amux.adapters._kit.values import document, mapping

_NOTE: Final = ".project_root"
_PROJECTS: Final = "projects.json"
_TRUSTED: Final = "trustedFolders.json"
_CHATS: Final = "chats"
_SMALL_FILE: Final = 4 << 20
_BEGINNING: Final = 1 << 20  # of another chat

_HASHED: Final = re.compile(r"[0-9a-f]{64}")
_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")
_PATH: Final = re.compile(rb'"(?:/|[A-Za-z]:(?:\\\\|/))(?:[^"\\]|\\.){1,400}"')
_MOST_PATHS: Final = 200


def is_hash(folder: Path) -> bool:
    """Return whether a project's folder is named by the hash of its directory."""
    return _HASHED.fullmatch(folder.name) is not None


def directory_files(root: Path, folder: Path, notes: Iterable[Path] = ()) -> tuple[Path, ...]:
    """Return the files that may name the directory of a project's folder.

    The notes of other folders are needed only for a folder that is named by a hash.
    """
    own = (folder / _NOTE, root / _PROJECTS, root / _TRUSTED)
    return (*own, *notes) if is_hash(folder) else own


def notes_in(folders: Iterable[Path]) -> tuple[Path, ...]:
    """Return the notes that project folders may hold, without folders that are named by a hash."""
    return tuple(path / _NOTE for path in folders if not is_hash(path))


def project_directory(
    source: SourceRef, folder: Path, project_hash: str | None, named: Iterable[str] | None
) -> str | None:
    """Return the working directory of a project's folder; None if it cannot be proved.

    `named` are directories that the source itself names. If it is None, no chat is searched.
    """
    noted = _read_note(folder / _NOTE)
    if noted:
        return noted
    projects = mapping(mapping(read_json(source.root / _PROJECTS)).get("projects"))
    for directory, name in projects.items():
        if name == folder.name:
            return directory
    hashes = {project_hash, folder.name}
    listed = _proved(hashes, projects) or _proved(hashes, _candidates(source, projects))
    if listed is not None or named is None:
        return listed
    return _proved(hashes, named) or _proved(hashes, _named_in_chats(source))


def _candidates(source: SourceRef, projects: dict[str, Any]) -> Iterator[str]:
    """Yield directories that may have the hash of a project."""
    yield from mapping(read_json(source.root / _TRUSTED))
    yield str(source.root.parent)
    listed = set(map(str, projects.values()))
    for path in source.companions:
        if path.name == _NOTE and path.parent.name not in listed:
            yield _read_note(path)


def _named_in_chats(source: SourceRef) -> Iterator[str]:
    """Yield the paths that other chats of the project name."""
    for path in source.companions:
        if path.parent.name == _CHATS:
            named = NamedPaths()
            named.take(_beginning(path, _BEGINNING))
            yield from named.paths


def _proved(hashes: set[str | None], directories: Iterable[str]) -> str | None:
    """Return the directory, or the parent of one, whose hash is among `hashes`; else None."""
    from hashlib import sha256  # loads OpenSSL

    tried: set[str] = set()
    for directory in directories:
        for path in _with_parents(directory):
            if path in tried:
                continue
            tried.add(path)
            if sha256(path.encode("utf-8", "surrogatepass")).hexdigest() in hashes:
                return path
    return None


def _with_parents(directory: str) -> Iterator[str]:
    yield directory
    path: PurePath = PurePosixPath(directory)
    if _DRIVE.match(directory):
        path = PureWindowsPath(directory)
    if path.is_absolute():
        yield from map(str, (path, *path.parents))


class NamedPaths:
    """Collects absolute paths in JSON data, up to a limit."""

    def __init__(self) -> None:
        self.paths: dict[str, None] = {}

    def take(self, arguments: bytes) -> None:
        """Add the strings of JSON data that are absolute paths."""
        for found in _PATH.findall(arguments):
            path = document(found)
            if isinstance(path, str) and len(self.paths) < _MOST_PATHS:
                self.paths[path] = None


def read_json(path: Path) -> Any:
    """Return the value of a small JSON file; None if it is missing, too large or not JSON."""
    return document(_read(path))


def _read_note(path: Path) -> str:
    return _read(path).decode("utf-8", "replace").strip()


def _read(path: Path) -> bytes:
    data = _beginning(path, _SMALL_FILE + 1)
    return data if len(data) <= _SMALL_FILE else b""


def _beginning(path: Path, size: int) -> bytes:
    try:
        with open_stream(path) as stream:
            return stream.read(size)
    except OSError:
        return b""
