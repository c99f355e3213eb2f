"""Finds the chats in a project's folder, and the working directory that the folder stands for.

A chat records only the hash of its working directory. The directory itself is looked up in this
order: the note in the folder, the list of all projects by folder name, that list by hash. All of
these are small files; a file that cannot be read is ignored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from amux.adapters._base import Item, SourceRef, Want
from amux.adapters._kit.folders import Folders
from amux.adapters._kit.streams import open_stream
from amux.adapters._kit.values import document, is_mapping, mapping, text

CHAT_NAME: Final = re.compile(
    r"session-(?P<minute>\d{4}-\d\d-\d\dT\d\d-\d\d(?:-\d\d)?)-(?P<id8>[^.]{1,64})\.jsonl?"
)
"""A file name holds the minute in which a chat began and the first characters of its session id."""

_DOCUMENT: Final = ".json"

SETTINGS: Final = "settings.json"
_NOTE: Final = ".project_root"
_PROJECTS: Final = "projects.json"
_SMALL_FILE: Final = 4 << 20


def chat_sources(agent: str, root: Path, chats: Path, *, folders: Folders) -> Iterator[SourceRef]:
    """Yield the chats of one folder and the sub-agents below it, without following links."""
    found = folders.by_name(chats)
    directory_hints = directory_files(root, chats.parent)
    documents = _documents(found)
    for entry in found:
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            yield from _subagents(agent, root, path, folders=folders)
        elif (name := CHAT_NAME.fullmatch(entry.name)) and entry.is_file(follow_symlinks=False):
            yield SourceRef(
                agent=agent,
                path=path,
                root=root,
                id_prefix=name["id8"],
                group=str(root),
                companions=(*directory_hints, *map(path.with_name, _earlier(name, documents))),
            )


def _subagents(agent: str, root: Path, folder: Path, *, folders: Folders) -> Iterator[SourceRef]:
    for entry in folders.by_name(folder):
        path = Path(entry.path)
        if path.suffix == ".jsonl" and entry.is_file(follow_symlinks=False):
            yield SourceRef(
                agent=agent,
                path=path,
                root=root,
                session_id=path.stem,
                group=str(root),
                role="subagent",
                parent=folder.name,
                companions=directory_files(root, folder.parent.parent),
            )


def read_chat(source: SourceRef, *, want: Want) -> Iterator[Item]:
    """Read one chat."""
    parents = source.path.parents
    project = parents[2] if source.parent is not None else parents[1]
    from amux.adapters.gemini.chat import ChatReader

    own = CHAT_NAME.fullmatch(source.path.name)
    is_document = own is not None and source.path.suffix == _DOCUMENT
    documents = _documents(Folders().entries(source.path.parent)) if is_document else {}
    reader = ChatReader(
        source,
        want=want,
        find_directory=partial(project_directory, source.root, project),
        # A compression leaves an older document of the session.
        repeats_session=own is not None and bool(_earlier(own, documents)),
    )
    return reader.items()


def _documents(found: Iterable[os.DirEntry[str]]) -> dict[str, list[re.Match[str]]]:
    """Return the names of the documents, keyed by the id prefix of their session."""
    documents: dict[str, list[re.Match[str]]] = {}
    for entry in found:
        name = CHAT_NAME.fullmatch(entry.name)
        if name is not None and entry.name.endswith(_DOCUMENT):
            documents.setdefault(name["id8"], []).append(name)
    return documents


def _earlier(own: re.Match[str], documents: dict[str, list[re.Match[str]]]) -> list[str]:
    """Return the older documents of the session of `own`; none for a log, which is never split."""
    if not own[0].endswith(_DOCUMENT):
        return []
    return [one[0] for one in documents.get(own["id8"], []) if one["minute"] < own["minute"]]


def directory_files(root: Path, folder: Path) -> tuple[Path, ...]:
    """Return the files that may name the directory that a project's folder stands for."""
    return folder / _NOTE, root / _PROJECTS


def project_directory(root: Path, folder: Path, project_hash: str | None) -> str | None:
    """Return the working directory that a project's folder stands for; None if no file names it."""
    noted = _read(folder / _NOTE).decode("utf-8", "replace").strip()
    if noted:
        return noted
    projects = mapping(mapping(read_json(root / _PROJECTS)).get("projects"))
    for directory, name in projects.items():
        if name == folder.name:
            return directory
    from hashlib import sha256  # loads OpenSSL

    for directory in projects:  # older versions name the folder by the hash of the directory
        digest = sha256(directory.encode("utf-8", "surrogatepass")).hexdigest()
        if digest in {project_hash, folder.name}:
            return directory
    return None


def configured_model(root: Path) -> str | None:
    """Return the model that the settings name; None if they name none."""
    model = mapping(read_json(root / SETTINGS)).get("model")
    while is_mapping(model):  # an upgrade nests the name once more
        model = model.get("name")
    return text(model)


def read_json(path: Path) -> Any:
    """Return the value of a small JSON file; None if it is missing, too large or not JSON."""
    return document(_read(path))


def _read(path: Path) -> bytes:
    try:
        with open_stream(path) as stream:
            data = stream.read(_SMALL_FILE + 1)
    except OSError:
        return b""
    return data if len(data) <= _SMALL_FILE else b""
