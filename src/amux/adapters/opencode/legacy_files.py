"""Reads sessions of OpenCode before 1.2: one JSON file per session, message and part.

    from 0.6   storage/session/<project>/<session>.json
               storage/message/<session>/<message>.json, storage/part/<message>/<part>.json
    before     project/<folder>/storage/session/info/<session>.json
               .../session/message/<session>/<message>.json
               .../session/part/<session>/<message>/<part>.json

Paths are derived from file names, never from ids inside files, so no id can point elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from amux.adapters._base import Item, SourceRef
from amux.adapters._kit.folders import Folders
from amux.adapters._kit.jsonl import unreadable
from amux.adapters._kit.related import ANY, LinkKey, LinkKeys
from amux.adapters._kit.values import decode, document, is_mapping, text, to_millis
from amux.adapters.opencode.conversation import Conversation
from amux.adapters.opencode.records import MESSAGE, PART, PART_TYPES, StoredMessage, session_of
from amux.adapters.opencode.selection import answer_key
from amux.model.problems import Problem

INFO_FOLDER: Final = "info"
SESSION: Final = msgspec.json.Decoder(dict[str, Any])

T = TypeVar("T")

_ANYTHING: Final = msgspec.json.Decoder()


def session_files(storage: Path, folders: Folders) -> Iterator[Path]:
    """Yield the session files below one `storage` folder of either layout, by name alone."""
    for folder in folders.by_name(storage / "session"):
        if folder.is_dir(follow_symlinks=False) and folder.name not in ("message", "part"):
            yield from _json_files(Path(folder.path), folders)


def companion_folders(path: Path) -> tuple[Path, ...]:
    """Return the folders of messages, parts and sessions; another session may name this parent."""
    messages, parts = _body_folders(path)
    if parts.name == path.stem:
        return messages, parts, path.parent
    # From 0.6 on, one folder holds the parts of all sessions.
    own = (parts / file.stem for file in _json_files(messages, Folders()))
    return (messages, *own, path.parent)


def read_files(source: SourceRef, *, bodies: bool, only: str | None) -> Iterator[Item]:
    """Yield the items of one session."""
    try:
        record = document(source.path.read_bytes())
    except OSError as error:
        yield unreadable(source.path, error)
        return
    if not is_mapping(record):
        message = "the session's record is not a JSON object"
        yield Problem(code="unknown-format", message=message, path=str(source.path))
        return
    session = session_of(record, source.path.stem)
    if only is not None and session.id != only:
        return
    conversation = Conversation(session, _messages(source.path), bodies=bodies)
    items, facts = conversation.read()
    yield from items
    if conversation.has_unnamed_children:  # sessions in the same folder may name their parent
        children = list(facts.children)
        for file in _json_files(source.path.parent, Folders()):
            child = _load(file, MESSAGE)
            if not isinstance(child, Problem) and child.parent == session.id:
                children.append(file.stem)
        facts = msgspec.structs.replace(facts, children=tuple(dict.fromkeys(children)))
    yield facts


def links_of_files(path: Path) -> LinkKeys:
    """Return the keys of a session: its parent and its first answer; `ANY` if it is unreadable."""
    record = _load(path, SESSION)
    if isinstance(record, Problem):
        return {path.stem: (ANY,)}
    session = session_of(record, path.stem)
    keys: list[LinkKey] = [] if session.parent is None else [session.parent]
    for file in _json_files(_body_folders(path)[0], Folders()):
        message = _load(file, MESSAGE)
        if isinstance(message, Problem):
            return {session.id: (ANY,)}
        if message.role == "assistant":
            return {session.id: (*keys, answer_key(text(message.id) or file.stem, message))}
    return {session.id: keys}


def _messages(path: Path) -> list[StoredMessage | Problem]:
    """Return problems, then all messages in order of time."""
    messages, parts = _body_folders(path)
    folders = Folders()
    problems: list[StoredMessage | Problem] = []
    found: list[StoredMessage] = []
    for file in _json_files(messages, folders):
        record = _load(file, MESSAGE)
        if isinstance(record, Problem):
            problems.append(record)
            continue
        stored = StoredMessage(id=text(record.id) or file.stem, record=record)
        stored.check_role({"id": stored.id, "role": record.role})
        for part_file in _json_files(parts / file.stem, folders):
            part = _load(part_file, PART)
            if isinstance(part, Problem):
                problems.append(part)
                continue
            part.id = text(part.id) or part_file.stem
            stored.add(part, None if part.type in PART_TYPES else _load(part_file, _ANYTHING))
        found.append(stored)
    found.sort(key=lambda stored: (to_millis(stored.record.created), stored.id))
    closed = [unreadable(folder, PermissionError("closed")) for folder in folders.closed]
    return [*closed, *problems, *found]


def _body_folders(path: Path) -> tuple[Path, Path]:
    """Return the folders of a session's messages and of the parts of these messages."""
    if path.parent.name == INFO_FOLDER:
        storage = path.parent.parent
        return storage / "message" / path.stem, storage / "part" / path.stem
    storage = path.parent.parent.parent
    return storage / "message" / path.stem, storage / "part"


def _load(path: Path, decoder: msgspec.json.Decoder[T]) -> T | Problem:
    try:
        record = decode(path.read_bytes(), decoder)
    except OSError as error:
        return unreadable(path, error)
    if record is None:
        return Problem(code="bad-record", message="the record is not a JSON object", path=str(path))
    return record


def _json_files(folder: Path, folders: Folders) -> list[Path]:
    """Return the JSON files sorted by name: ids of messages and parts increase with time."""
    entries = folders.by_name(folder)
    names = (entry for entry in entries if entry.is_file(follow_symlinks=False))
    return [Path(entry.path) for entry in names if entry.name.endswith(".json")]
