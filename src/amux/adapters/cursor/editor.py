"""The editor's state: `globalStorage/state.vscdb`, a table of keys and JSON values.

A conversation is `composerData:<id>`; its messages are `bubbleId:<id>:<bubble>`, in the order of
the conversation's headers. Bubbles outside the headers were regenerated or undone and are no part
of it; a conversation without headers and without inline messages is a draft. The table may have
many gigabytes: it is only ever asked for ranges of keys.

Lists read all of it: what is known of a conversation is one value, in old versions with
all of its messages, and its place may be known only to the state of a workspace.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from amux.adapters._base import Head, Item
from amux.adapters._kit.fold import Fold, Unknowns
from amux.adapters._kit.tables import columns
from amux.adapters._kit.values import document, is_mapping, items, mapping, moment, number, text
from amux.adapters.cursor.bubbles import (
    Bubble,
    bubble_call,
    bubble_messages,
    bubble_model,
    is_bubble,
)
from amux.adapters.cursor.messages import model_name
from amux.model.facts import Facts
from amux.model.incomplete import USAGE_NOT_RECORDED
from amux.model.problems import Problem
from amux.model.usage import NANO

if TYPE_CHECKING:
    import sqlite3

TABLE: Final = "cursorDiskKV"
_COMPOSER: Final = "composerData:"
_CENTS: Final = 100
# A colon is followed by a semicolon in ASCII: a range of keys is an index lookup, LIKE is a scan.
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


def has_conversations(connection: sqlite3.Connection) -> bool:
    """Whether this is the editor's state."""
    return {"key", "value"}.issubset(columns(connection, TABLE))


def read_conversations(
    connection: sqlite3.Connection, path: str, *, bodies: bool, only: str | None
) -> list[Item]:
    """All conversations (or one), with two statements however many there are."""
    found = list(_conversations(connection, path, bodies=bodies, only=only))
    parents = {
        child: item.session_id
        for item in found
        if isinstance(item, Facts)
        for child in item.children
        if child != item.session_id
    }
    return [_below(item, parents) if isinstance(item, Facts) else item for item in found]


def _below(facts: Facts, parents: dict[str, str]) -> Facts:
    """A conversation that another one names as its sub-agent."""
    parent = parents.get(facts.session_id)
    return facts if parent is None else replace(facts, kind="subagent", parent=parent)


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
            bubbles = {_last(name): mapping(document(data)) for _, name, data in pending[1]}
            pending = next(groups, None)
        composer = document(value)
        if is_mapping(composer):
            id = str(key).removeprefix(_COMPOSER)
            yield from Conversation(id, composer, bubbles, path).items(bodies=bodies)
        elif value is not None:
            message = f"conversation `{key}` is no JSON object"
            yield Problem(code="bad-record", message=message, path=path)


def _last(key: Any) -> str:
    return str(key).rpartition(":")[2]


class Conversation:
    """One conversation of the editor."""

    def __init__(
        self, id: str, composer: dict[str, Any], bubbles: dict[str, Bubble], path: str
    ) -> None:
        self._id = id
        self._composer = composer
        self._path = path
        self._model = model_name(mapping(composer.get("modelConfig")).get("modelName"))
        self._lost = 0
        self._unknown = Unknowns()
        self._fold = Fold()
        self._bubbles = list(self._ordered(bubbles))

    def _ordered(self, bubbles: dict[str, Bubble]) -> Iterator[tuple[str, Bubble]]:
        """By the headers; old conversations have their bubbles inline."""
        headers = items(self._composer.get("fullConversationHeadersOnly"))
        inline = mapping(self._composer.get("conversationMap"))
        for header in headers:
            id = text(mapping(header).get("bubbleId"))
            bubble = mapping(bubbles.get(id or "") or inline.get(id or ""))
            if id is not None and bubble:
                yield id, bubble
            else:
                self._lost += 1
        if not headers:
            for position, bubble in enumerate(items(self._composer.get("conversation"))):
                yield text(mapping(bubble).get("bubbleId")) or f"#{position}", mapping(bubble)

    def items(self, *, bodies: bool) -> Iterator[Item]:
        """Yield the items of the session; a draft without bubbles yields none."""
        if not self._bubbles and not self._lost:
            return  # a draft
        yield Head(session_id=self._id)
        if self._lost:
            lost = f"{self._lost} messages of conversation `{self._id}` are gone"
            problem = Problem(code="bad-record", message=lost, path=self._path)
            self._fold.problem(problem)
            yield problem
        for id, bubble in self._bubbles:
            if not is_bubble(bubble):
                self._unknown.take(f"bubble:{bubble.get('type')!s}", bubble)
                continue
            call = bubble_call(bubble, id, conversation=self._id, model=self._model)
            if call is not None:
                self._fold.call(call)
                yield call
            for message in bubble_messages(bubble, id, call):
                self._fold.message(message)
                if bodies:
                    yield message
        yield self._facts()

    def _facts(self) -> Facts:
        composer = self._composer
        created = moment(composer.get("createdAt"))
        self._fold.moment(created)
        self._fold.moment(moment(composer.get("lastUpdatedAt")))
        billed = _billed(composer.get("usageData"))
        is_named = any(bubble_model(bubble) for _, bubble in self._bubbles)
        models = dict.fromkeys(filter(None, [self._model, *billed]))
        return self._fold.facts(
            self._id,
            cwd=place_of(composer.get("workspaceIdentifier")),
            name=text(composer.get("name")),
            created_at=created,
            archived=composer.get("isArchived") is True,
            children=tuple(filter(None, map(text, items(composer.get("subagentComposerIds"))))),
            models=None if is_named else tuple(models),
            # Tokens are kept for some bubbles, without the cache, and are often zero.
            gaps=(USAGE_NOT_RECORDED,),
            native_nusd=sum(billed.values()) or None,
            raw=self._unknown.raw(),
        )


def _billed(usage: Any) -> dict[str, int]:
    """Nano-USD by model, as older versions recorded it for the whole conversation."""
    found: dict[str, int] = {}
    for model, record in mapping(usage).items():
        cents = number(mapping(record).get("costInCents"))
        if cents:
            found[model] = round(cents * NANO / _CENTS)
    return found


def place_of(identifier: Any) -> str | None:
    """The folder of a workspace: a URI, or an object that holds one."""
    if isinstance(identifier, str):
        return folder_of_uri(identifier)
    record = mapping(identifier)
    uri = record.get("uri", record.get("folder"))
    if isinstance(uri, str):
        return folder_of_uri(uri)
    inner = mapping(uri)
    return text(inner.get("fsPath")) or text(inner.get("path"))


def folder_of_uri(uri: str) -> str | None:
    """`file:///home/me/x` to `/home/me/x`; on Windows `file:///c%3A/x` to `c:/x`."""
    try:
        path = unquote(urlsplit(uri).path)
    except ValueError:
        return None
    is_drive = path[:1] == "/" and path[2:3] == ":"
    return (path[1:] if is_drive else path) or None
