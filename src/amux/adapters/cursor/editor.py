"""Reads the state of the editor: tables of keys and JSON values.

`globalStorage/state.vscdb` holds the conversations. A conversation is `composerData:<id>`; its
messages are the bubbles `bubbleId:<id>:<bubble>`, in the order of the conversation's headers. A
bubble was typed by a person (type 1) or written by a model (type 2). Bubbles that no header lists
were regenerated or undone and are not part of the conversation; a conversation without headers and
without inline messages is a draft. The table may have many gigabytes, so statements only select
ranges of keys.

`workspaceStorage/<hash>/state.vscdb`, with `workspace.json` beside it, says which conversations
belong to which folder, and holds the chats of 2024.

Lists read everything: the data of a conversation is one value, in old versions with all of its
messages, and its folder may be recorded only in the state of a workspace.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from amux.adapters._base import Head, Item
from amux.adapters._kit.fold import Fold, Unknowns, add_messages
from amux.adapters._kit.tables import columns
from amux.adapters._kit.usage import usage_view
from amux.adapters._kit.values import (
    count,
    damage_in,
    document,
    is_mapping,
    items,
    mapping,
    moment,
    number,
    text,
)
from amux.adapters.cursor import WORKSPACE_FILE
from amux.adapters.cursor.messages import model_name, tool_message
from amux.model.facts import Facts, TitleNote
from amux.model.incomplete import USAGE_NOT_RECORDED
from amux.model.message import SessionMessage, SessionToolCall, ToolResult
from amux.model.problems import Problem
from amux.model.usage import NANO, Call, Tokens

if TYPE_CHECKING:
    import sqlite3

Bubble = dict[str, Any]

_USER, _ASSISTANT = 1, 2
_FAILED: Final = ("error", "failed")
_FINISHED: Final = ("completed", *_FAILED)
TABLE: Final = "cursorDiskKV"
_COMPOSER: Final = "composerData:"
_CENTS: Final = 100
# In ASCII, a semicolon follows the colon. A range of keys uses the index; LIKE would be a scan.
_COMPOSERS: Final = """
    SELECT c.key, CAST(c.value AS BLOB) FROM cursorDiskKV c
    WHERE c.key >= ? AND c.key < ? ORDER BY c.key
"""
_BUBBLES: Final = """
    SELECT c.key, b.key, CAST(b.value AS BLOB) FROM cursorDiskKV c CROSS JOIN cursorDiskKV b
    ON b.key > 'bubbleId:' || substr(c.key, 14) || ':'
    AND b.key < 'bubbleId:' || substr(c.key, 14) || ';'
    WHERE c.key >= ? AND c.key < ? ORDER BY c.key
"""
_CHATS_KEY: Final = "workbench.panel.aichat.view.aichat.chatdata"
_COMPOSER_KEYS: Final = ("composer.composerData", "composer.composerHeaders")
_ITEMS: Final = "SELECT key, CAST(value AS BLOB) FROM ItemTable WHERE key IN (?, ?, ?)"


def bubble_messages(bubble: Bubble, id: str, call: Call | None) -> Iterator[SessionMessage]:
    """Yield the message of a bubble, and the result of its tool call."""
    at = bubble_time(bubble)
    said = (text(bubble.get("text")) or text(bubble.get("rawText")) or "").strip()
    if bubble.get("type") == _USER:
        yield SessionMessage(role="user", content=said, id=id, timestamp=at, synthetic=not said)
        return
    thought = text(mapping(bubble.get("thinking")).get("text"))
    tool = mapping(bubble.get("toolFormerData"))
    calls: tuple[SessionToolCall, ...] = ()
    if name := text(tool.get("name")):
        arguments = _json_or_text(tool.get("rawArgs") or tool.get("params"))
        call_id = text(tool.get("toolCallId")) or id
        calls = (SessionToolCall(tool_call_id=call_id, tool_name=name, input=arguments),)
    yield SessionMessage(
        role="assistant",
        content=said,
        thinking=thought,
        tool_calls=calls,
        token_usage=usage_view(call),
        model=bubble_model(bubble),
        id=id,
        timestamp=at,
        synthetic=not (said or thought or calls),
    )
    if calls and (tool.get("result") or tool.get("status") in _FINISHED):
        yield tool_message(_result(tool, id), parent=id, at=at)


def bubble_time(bubble: Bubble) -> datetime | None:
    """Return when a bubble was written; in old versions, when the request was sent."""
    timing = mapping(bubble.get("timingInfo"))
    return moment(bubble.get("createdAt")) or moment(timing.get("clientStartTime"))


def bubble_model(bubble: Bubble) -> str | None:
    """Return the model that wrote a bubble."""
    return model_name(mapping(bubble.get("modelInfo")).get("modelName"))


def bubble_call(bubble: Bubble, id: str, *, conversation: str, model: str | None) -> Call | None:
    """Return the call of a bubble; None if its counts are zero, which means not recorded."""
    counts = mapping(bubble.get("tokenCount"))
    tokens = Tokens(
        input=count(counts.get("inputTokens")) or 0, output=count(counts.get("outputTokens")) or 0
    )
    gaps = damage_in(counts, "inputTokens", "outputTokens")
    if not tokens.total and not gaps:
        return None
    return Call(
        key=f"{conversation}/{id}",
        model=bubble_model(bubble) or model,
        at=bubble_time(bubble),
        tokens=tokens,
        message_id=id,
        gaps=gaps,
    )


def _result(tool: dict[str, Any], id: str) -> ToolResult:
    output = _json_or_text(tool.get("result"))
    states = (tool.get("status"), mapping(tool.get("additionalData")).get("status"))
    failed: bool | None = True if any(state in _FAILED for state in states) else None
    code = mapping(output).get("exitCode")
    if failed is None and number(code) is not None:
        failed = code != 0
    if failed is None and tool.get("status") == "completed":
        failed = False
    return ToolResult(
        tool_call_id=text(tool.get("toolCallId")) or id,
        tool_name=text(tool.get("name")) or "",
        output=output,
        is_error=failed,
    )


def _json_or_text(value: Any) -> Any:
    """Decode arguments or results, which are usually but not always JSON in a string."""
    inner = document(value) if isinstance(value, str) else None
    return value if inner is None else inner


def has_conversations(connection: sqlite3.Connection) -> bool:
    """Return whether the database is the editor's global state."""
    return {"key", "value"}.issubset(columns(connection, TABLE))


def read_conversations(
    connection: sqlite3.Connection, path: str, *, bodies: bool, only: str | None
) -> list[Item]:
    """Return the items of all conversations, or of one; two statements regardless of number."""
    found = list(_conversations(connection, path, bodies=bodies, only=only))
    parents = {
        child: item.session_id
        for item in found
        if isinstance(item, Facts)
        for child in item.children
        if child != item.session_id
    }
    return [
        replace(item, kind="subagent", parent=parents[item.session_id])
        if isinstance(item, Facts) and item.session_id in parents
        else item
        for item in found
    ]


def _conversations(
    connection: sqlite3.Connection, path: str, *, bodies: bool, only: str | None
) -> Iterator[Item]:
    wanted = (_COMPOSER, "composerData;")
    if only is not None:
        wanted = (_COMPOSER + only, f"{_COMPOSER}{only}\x00")
    composers = connection.execute(_COMPOSERS, wanted)
    groups = groupby(connection.execute(_BUBBLES, wanted), key=itemgetter(0))
    pending = next(groups, None)
    for key, value in composers:
        bubbles: dict[str, Bubble] = {}
        if pending is not None and pending[0] == key:
            bubbles = {
                str(name).rpartition(":")[2]: mapping(document(data))
                for _, name, data in pending[1]
            }
            pending = next(groups, None)
        composer = document(value)
        if is_mapping(composer):
            id = str(key).removeprefix(_COMPOSER)
            yield from Conversation(id, composer, bubbles, path).items(bodies=bodies)
        elif value is not None:
            message = f"conversation `{key}` is not a JSON object"
            yield Problem(code="bad-record", message=message, path=path)


class Conversation:
    """Builds the items of one conversation of the editor."""

    def __init__(
        self, id: str, composer: dict[str, Any], bubbles: dict[str, Bubble], path: str
    ) -> None:
        self._id = id
        self._composer = composer
        self._path = path
        self._model = model_name(mapping(composer.get("modelConfig")).get("modelName"))
        self._missing_count = 0
        self._unknown = Unknowns()
        self._fold = Fold()
        self._bubbles = list(self._ordered(bubbles))

    def _ordered(self, bubbles: dict[str, Bubble]) -> Iterator[tuple[str, Bubble]]:
        """Yield the bubbles in the order of the headers; old conversations contain them inline."""
        headers = items(self._composer.get("fullConversationHeadersOnly"))
        inline = mapping(self._composer.get("conversationMap"))
        for header in headers:
            id = text(mapping(header).get("bubbleId"))
            bubble = mapping(bubbles.get(id or "") or inline.get(id or ""))
            if id is not None and bubble:
                yield id, bubble
            else:
                self._missing_count += 1
        if not headers:
            for position, bubble in enumerate(items(self._composer.get("conversation"))):
                yield text(mapping(bubble).get("bubbleId")) or f"#{position}", mapping(bubble)

    def items(self, *, bodies: bool) -> Iterator[Item]:
        """Yield the items of the session; none for a draft without bubbles."""
        if not self._bubbles and not self._missing_count:
            return  # a draft
        yield Head(session_id=self._id)
        if self._missing_count:
            lost = f"{self._missing_count} messages of conversation `{self._id}` are missing"
            problem = Problem(code="bad-record", message=lost, path=self._path)
            self._fold.problem(problem)
            yield problem
        for id, bubble in self._bubbles:
            if bubble.get("type") not in (_USER, _ASSISTANT):
                self._unknown.take(f"bubble:{bubble.get('type')!s}", bubble)
                continue
            call = bubble_call(bubble, id, conversation=self._id, model=self._model)
            if call is not None:
                self._fold.call(call)
                yield call
            messages = bubble_messages(bubble, id, call)
            yield from add_messages(self._fold, messages, bodies=bodies)
        yield self._facts()

    def _facts(self) -> Facts:
        composer = self._composer
        created = moment(composer.get("createdAt"))
        self._fold.moment(created)
        self._fold.moment(moment(composer.get("lastUpdatedAt")))
        # Nano-USD by model, which older versions recorded for the whole conversation.
        billed = {
            model: round(cents * NANO / _CENTS)
            for model, record in mapping(composer.get("usageData")).items()
            if (cents := number(mapping(record).get("costInCents")))
        }
        is_named = any(bubble_model(bubble) for _, bubble in self._bubbles)
        models = dict.fromkeys(filter(None, [self._model, *billed]))
        return self._fold.facts(
            self._id,
            cwd=folder_of_workspace(composer.get("workspaceIdentifier")),
            name=text(composer.get("name")),
            created_at=created,
            archived=composer.get("isArchived") is True,
            children=tuple(filter(None, map(text, items(composer.get("subagentComposerIds"))))),
            models=None if is_named else tuple(models),
            # Tokens are recorded for some bubbles only, without the cache, and are often zero.
            gaps=(USAGE_NOT_RECORDED,),
            native_nusd=sum(billed.values()) or None,
            raw=self._unknown.raw(),
        )


def folder_of_workspace(identifier: Any) -> str | None:
    """Return the folder of a workspace identifier, which is a URI or an object with one."""
    if isinstance(identifier, str):
        return folder_of_uri(identifier)
    record = mapping(identifier)
    uri = record.get("uri", record.get("folder"))
    if isinstance(uri, str):
        return folder_of_uri(uri)
    inner = mapping(uri)
    return text(inner.get("fsPath")) or text(inner.get("path"))


def folder_of_uri(uri: str) -> str | None:
    """Convert `file:///home/me/x` to `/home/me/x`, and `file:///c%3A/x` to `c:/x`."""
    try:
        path = unquote(urlsplit(uri).path)
    except ValueError:
        return None
    is_drive = path[:1] == "/" and path[2:3] == ":"
    return (path[1:] if is_drive else path) or None


def has_items(connection: sqlite3.Connection) -> bool:
    """Return whether the database is the state of a workspace."""
    return {"key", "value"}.issubset(columns(connection, "ItemTable"))


def read_workspace(
    connection: sqlite3.Connection, path: Path, *, bodies: bool, only: str | None
) -> list[Item]:
    """Return the folders of conversations as notes, then the items of every chat."""
    found = {
        str(key): mapping(document(value))
        for key, value in connection.execute(_ITEMS, (_CHATS_KEY, *_COMPOSER_KEYS))
    }
    try:
        record = mapping(document(path.with_name(WORKSPACE_FILE).read_bytes()))
    except OSError:
        record = {}
    uri = text(record.get("folder"))
    folder = None if uri is None else folder_of_uri(uri)
    result: list[Item] = []
    if folder is not None and only is None:
        result += _notes(found, folder, f"workspace-{path.parent.name}")
    for tab in items(found.get(_CHATS_KEY, {}).get("tabs")):
        result += _chat(mapping(tab), folder, bodies=bodies, only=only)
    return result


def _notes(found: dict[str, dict[str, Any]], folder: str, id: str) -> Iterator[Item]:
    ids: list[Any] = []
    for key in _COMPOSER_KEYS:
        record = found.get(key, {})
        ids += (mapping(head).get("composerId") for head in items(record.get("allComposers")))
        ids += items(record.get("selectedComposerIds"))
    if names := dict.fromkeys(filter(None, map(text, ids))):
        notes = tuple(TitleNote(session_id=name, cwd=folder) for name in names)
        yield Head(session_id=id)
        yield Facts(session_id=id, addressable=False, attributed=False, notes=notes)


def _chat(
    tab: dict[str, Any], folder: str | None, *, bodies: bool, only: str | None
) -> Iterator[Item]:
    id = text(tab.get("tabId"))
    messages = [
        SessionMessage(
            role="user" if bubble.get("type") == "user" else "assistant",
            content=said,
            model=None if bubble.get("type") == "user" else model_name(bubble.get("modelType")),
            id=text(bubble.get("id")),
        )
        for bubble in map(mapping, items(tab.get("bubbles")))
        if (said := text(bubble.get("text")) or text(bubble.get("rawText")))
    ]
    if id is None or not messages or (only is not None and only != id):
        return
    fold = Fold()
    yield Head(session_id=id)
    yield from add_messages(fold, messages, bodies=bodies)
    fold.moment(moment(tab.get("lastSendTime")))
    yield fold.facts(id, cwd=folder, name=text(tab.get("chatTitle")), gaps=(USAGE_NOT_RECORDED,))
