"""Finds the chats in a project's folder and reads one of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from amux.adapters._base import InjectedText, Item, SourceRef, Want
from amux.adapters._kit.folders import Folders
from amux.adapters._kit.injected import InjectedTexts
from amux.adapters._kit.values import is_mapping, mapping, text
from amux.adapters.gemini.directories import (
    directory_files,
    is_hash,
    project_directory,
    read_json,
)

CHAT_NAME: Final = re.compile(
    r"session-(?P<minute>\d{4}-\d\d-\d\dT\d\d-\d\d(?:-\d\d)?)-(?P<id8>[^.]{1,64})\.jsonl?"
)
"""A file name holds the minute in which a chat began and the first characters of its session id."""

_DOCUMENT: Final = ".json"
_LOG: Final = ".jsonl"
_MOST_SEARCHED: Final = 4  # other chats that may name the working directory

SETTINGS: Final = "settings.json"


def chat_sources(
    agent: str, root: Path, chats: Path, *, folders: Folders, notes: Sequence[Path] = ()
) -> Iterator[SourceRef]:
    """Yield the chats of one folder and the sub-agents below it, without following links.

    `notes` are files that name the directories of other projects.
    """
    found = folders.by_name(chats)
    directory_hints = directory_files(root, chats.parent, notes)
    if is_hash(chats.parent):
        named = (entry for entry in found if CHAT_NAME.fullmatch(entry.name))
        directory_hints += tuple(Path(entry.path) for entry in islice(named, _MOST_SEARCHED))
    documents = _documents(found)
    for entry in found:
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            yield from _subagents(agent, root, path, directory_hints, folders=folders)
        elif (name := CHAT_NAME.fullmatch(entry.name)) and entry.is_file(follow_symlinks=False):
            yield SourceRef(
                agent=agent,
                path=path,
                root=root,
                id_prefix=name["id8"],
                group=str(root),
                companions=_without(path, directory_hints, _earlier(name, documents)),
            )


def _without(path: Path, hints: Iterable[Path], earlier: Iterable[str]) -> tuple[Path, ...]:
    """Return the companions of a chat, each once and without the chat itself."""
    others = dict.fromkeys((*hints, *map(path.with_name, earlier)))
    return tuple(each for each in others if each != path)


def _subagents(
    agent: str, root: Path, folder: Path, directory_hints: tuple[Path, ...], *, folders: Folders
) -> Iterator[SourceRef]:
    for entry in folders.by_name(folder):
        path = Path(entry.path)
        if path.suffix in {_DOCUMENT, _LOG} and entry.is_file(follow_symlinks=False):
            yield SourceRef(
                agent=agent,
                path=path,
                root=root,
                session_id=path.stem,
                group=str(root),
                role="subagent",
                parent=folder.name,
                companions=directory_hints,
            )


def read_chat(source: SourceRef, *, want: Want, injected: Iterable[InjectedText]) -> Iterator[Item]:
    """Read one chat; `injected` are the texts that the agent injects."""
    parents = source.path.parents
    project = parents[2] if source.parent is not None else parents[1]
    from amux.adapters.gemini.chat import ChatReader

    own = CHAT_NAME.fullmatch(source.path.name)
    is_document = own is not None and source.path.suffix == _DOCUMENT
    documents = _documents(Folders().entries(source.path.parent)) if is_document else {}
    reader = ChatReader(
        source,
        want=want,
        injected=InjectedTexts(injected),
        find_directory=partial(project_directory, source, project),
        has_older_document=own is not None and bool(_earlier(own, documents)),
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


def configured_model(root: Path) -> str | None:
    """Return the model that the settings name; None if they name none."""
    model = mapping(read_json(root / SETTINGS)).get("model")
    while is_mapping(model):  # an upgrade nests the name once more
        model = model.get("name")
    return text(model)
