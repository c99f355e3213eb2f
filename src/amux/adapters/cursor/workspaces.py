"""A workspace's state: which conversations belong to which folder, and the chats of 2024.

`workspaceStorage/<hash>/state.vscdb` with `workspace.json` beside it. The conversations themselves
lie in the editor's global state; what is said of them here are notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amux.adapters._base import Head, Item
from amux.adapters._kit.fold import Fold
from amux.adapters._kit.tables import columns
from amux.adapters._kit.values import document, items, mapping, moment, text
from amux.adapters.cursor.editor import folder_of_uri
from amux.adapters.cursor.files import WORKSPACE_NOTES
from amux.adapters.cursor.messages import model_name
from amux.model.facts import Facts, TitleNote
from amux.model.incomplete import USAGE_NOT_RECORDED
from amux.model.message import SessionMessage

if TYPE_CHECKING:
    import sqlite3

_CHATS: Final = "workbench.panel.aichat.view.aichat.chatdata"
_COMPOSERS: Final = ("composer.composerData", "composer.composerHeaders")
_STATEMENT: Final = "SELECT key, CAST(value AS BLOB) FROM ItemTable WHERE key IN (?, ?, ?)"


def workspace_folder(path: Path) -> str | None:
    """The folder that `workspace.json` beside the state names."""
    try:
        record = mapping(document(path.with_name(WORKSPACE_NOTES).read_bytes()))
    except OSError:
        return None
    folder = text(record.get("folder"))
    return None if folder is None else folder_of_uri(folder)


def has_items(connection: sqlite3.Connection) -> bool:
    """Whether this is the state of a workspace."""
    return {"key", "value"}.issubset(columns(connection, "ItemTable"))


def read_workspace(
    connection: sqlite3.Connection, path: Path, *, bodies: bool, only: str | None
) -> list[Item]:
    """The notes, then every chat."""
    found = {
        str(key): mapping(document(value))
        for key, value in connection.execute(_STATEMENT, (_CHATS, *_COMPOSERS))
    }
    folder = workspace_folder(path)
    result: list[Item] = []
    if folder is not None and only is None:
        result += _notes(found, folder, f"workspace-{path.parent.name}")
    for tab in items(found.get(_CHATS, {}).get("tabs")):
        result += _chat(mapping(tab), folder, bodies=bodies, only=only)
    return result


def _notes(found: dict[str, dict[str, Any]], folder: str, id: str) -> Iterator[Item]:
    ids: dict[str, None] = {}
    for key in _COMPOSERS:
        record = found.get(key, {})
        listed = (mapping(head).get("composerId") for head in items(record.get("allComposers")))
        for named in map(text, (*listed, *items(record.get("selectedComposerIds")))):
            if named is not None:
                ids.setdefault(named)
    if ids:
        notes = tuple(TitleNote(session_id=name, cwd=folder) for name in ids)
        yield Head(session_id=id)
        yield Facts(session_id=id, addressable=False, attributed=False, notes=notes)


def _chat(
    tab: dict[str, Any], folder: str | None, *, bodies: bool, only: str | None
) -> Iterator[Item]:
    id = text(tab.get("tabId"))
    messages = list(_messages(items(tab.get("bubbles"))))
    if id is None or not messages or (only is not None and only != id):
        return
    fold = Fold()
    yield Head(session_id=id)
    for message in messages:
        fold.message(message)
        if bodies:
            yield message
    fold.moment(moment(tab.get("lastSendTime")))
    yield fold.facts(id, cwd=folder, name=text(tab.get("chatTitle")), gaps=(USAGE_NOT_RECORDED,))


def _messages(bubbles: list[Any]) -> Iterator[SessionMessage]:
    for bubble in map(mapping, bubbles):
        said = text(bubble.get("text")) or text(bubble.get("rawText"))
        if said is None:
            continue
        is_user = bubble.get("type") == "user"
        yield SessionMessage(
            role="user" if is_user else "assistant",
            content=said,
            model=None if is_user else model_name(bubble.get("modelType")),
            id=text(bubble.get("id")),
        )
