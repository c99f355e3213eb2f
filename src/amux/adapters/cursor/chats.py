"""The tree of blobs in a chat of cursor-agent.

A leaf is a message: plain JSON, or (newer builds) JSON in field 4 of a protobuf message. Any other
blob is a protobuf node: field 1 names a leaf, field 2 a subtree, each by the 32 bytes of its hash.
Titles and previews hang in the same tree and lead nowhere: a subtree that is not there is no loss,
a leaf is. Old roots and rewound messages stay in the table; only what the latest root reaches is
the conversation.

A chat of cursor-agent: `chats/<md5 of the working directory>/<session id>/store.db`.

Newer builds put `meta.json` beside it, and time and model on each message. No usage and no cost is
recorded anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amux.adapters._base import Head, Item
from amux.adapters._kit.fold import Fold, Unknowns
from amux.adapters._kit.tables import columns
from amux.adapters._kit.values import document, is_mapping, mapping, moment, plain_text, text
from amux.adapters.cursor import CHAT_META_FILE
from amux.adapters.cursor.messages import (
    Parts,
    model_name,
    prompt_messages,
    tool_message,
    workspace_in,
)
from amux.model.facts import Facts
from amux.model.incomplete import USAGE_NOT_RECORDED
from amux.model.message import SessionMessage
from amux.model.problems import Problem

if TYPE_CHECKING:
    import sqlite3

_HASH_BYTES: Final = 32
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_LEAF_FIELD, _SUBTREE_FIELD = 1, 2
_CHILD_FIELDS: Final = (_LEAF_FIELD, _SUBTREE_FIELD)
_MESSAGE_FIELD: Final = 4
_LONGEST_VARINT: Final = 10

Load = Callable[[str], bytes | None]


class Leaf(NamedTuple):
    """A message and the blob it was found in; None: the tree names a blob that is gone."""

    blob_id: str
    message: dict[str, Any] | None


def walk(root: str, load: Load) -> Iterator[Leaf]:
    """The messages below a root, in order; every node is entered once."""
    waiting = [(root, _LEAF_FIELD)]
    entered: set[str] = set()
    while waiting:
        blob_id, field = waiting.pop()
        data = load(blob_id)
        if data is None:
            if field == _LEAF_FIELD:
                yield Leaf(blob_id, None)
            continue
        message = message_in(data)
        if message is not None:
            yield Leaf(blob_id, message)
        elif blob_id not in entered:
            entered.add(blob_id)
            waiting.extend(reversed(_children(data)))


def message_in(data: bytes) -> dict[str, Any] | None:
    """The message a blob holds; None when it is a node."""
    whole = document(data) if data.lstrip()[:1] == b"{" else None
    if is_mapping(whole):
        return whole if "role" in whole else None
    for number, value in fields(data):
        inner = document(value) if number == _MESSAGE_FIELD and value[:1] == b"{" else None
        if is_mapping(inner) and "role" in inner:
            return inner
    return None


def _children(data: bytes) -> list[tuple[str, int]]:
    """The blobs a node names, and in which field. A text as long as a hash is no name."""
    return [
        (value.hex(), number)
        for number, value in fields(data)
        if number in _CHILD_FIELDS and len(value) == _HASH_BYTES and not _is_text(value)
    ]


def _is_text(value: bytes) -> bool:
    return value.isascii() and value.decode("ascii").isprintable()


def fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The length-delimited fields of a protobuf message, up to where it stops making sense."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key is None:
            return
        kind = key & 7
        if kind == _DELIMITED:
            length, at = _varint(data, at)
            if length is None or at + length > len(data):
                return
            yield key >> 3, data[at : at + length]
            at += length
        elif kind == _VARINT:
            value, at = _varint(data, at)
            if value is None:
                return
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            return


def _varint(data: bytes, at: int) -> tuple[int | None, int]:
    value = 0
    for shift, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            return value, at + shift + 1
    return None, at


_UNNAMED: Final = "New Agent"


class ChatStore:
    """One chat database."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._session_id = path.parent.name
        self._fold = Fold()
        self._cwd: str | None = None
        self._has_models = False
        self._unknown = Unknowns()
        self._ids: set[str] = set()

    def items(self, *, bodies: bool) -> Iterator[Item]:
        """The chat, from its latest root."""
        meta = self._meta()
        root = text(mapping(meta).get("latestRootBlobId"))
        if meta is None or root is None:
            what = "a database without a chat"
            yield Problem(code="unknown-format", message=what, path=str(self._path))
            return
        yield Head(session_id=self._session_id)
        for leaf in walk(root, self._load):
            if leaf.message is None:
                problem = self._missing(leaf)
                self._fold.problem(problem)
                yield problem
                continue
            for message in self._messages(leaf.blob_id, leaf.message):
                self._has_models |= message.model is not None
                self._fold.message(message)
                if bodies:
                    yield message
        yield self._facts(meta)

    def _meta(self) -> dict[str, Any] | None:
        """The record under key 0: JSON, usually in hexadecimal digits."""
        if not (columns(self._connection, "meta") and columns(self._connection, "blobs")):
            return None
        found = self._connection.execute("SELECT value FROM meta WHERE key = '0'").fetchone()
        value = None if found is None else found[0]
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        record = document(value)
        if is_mapping(record):
            return record
        try:
            record = document(bytes.fromhex(value)) if isinstance(value, str) else None
        except ValueError:
            return None
        return record if is_mapping(record) else None

    def _load(self, blob_id: str) -> bytes | None:
        statement = "SELECT CAST(data AS BLOB) FROM blobs WHERE id = ?"
        found = self._connection.execute(statement, (blob_id,)).fetchone()
        data = None if found is None else found[0]
        return data if isinstance(data, bytes) else None

    def _missing(self, leaf: Leaf) -> Problem:
        message = f"the chat names blob `{leaf.blob_id}`, which is gone"
        return Problem(code="bad-record", message=message, path=str(self._path))

    def _messages(self, blob_id: str, record: dict[str, Any]) -> Iterator[SessionMessage]:
        id, at = self._unique(blob_id), moment(record.get("createdAt"))
        parts = Parts(record.get("content"), prefix=id)
        for kind, part in parts.unknown:
            self._unknown.take(kind, part)
        match record.get("role"):
            case "user":
                self._cwd = self._cwd or workspace_in(parts.text)
                yield from prompt_messages(parts.text, id=id, at=at)
            case "assistant":
                said = bool(parts.text or parts.thinking or parts.calls)
                yield SessionMessage(
                    role="assistant",
                    content=parts.text,
                    thinking=parts.thinking,
                    tool_calls=tuple(parts.calls),
                    model=_model_of(record),
                    timestamp=at,
                    id=id,
                    synthetic=not said,
                )
            case "system":
                yield SessionMessage(role="system", content=parts.text, id=id, synthetic=True)
            case "tool":
                for result in parts.results:
                    yield tool_message(result, at=at)
            case role:
                self._unknown.take(f"message:{plain_text(role)}", record)

    def _unique(self, blob_id: str) -> str:
        """Equal messages are one blob; the second gets an id of its own."""
        id = blob_id if blob_id not in self._ids else f"{blob_id}#{len(self._ids)}"
        self._ids.add(id)
        return id

    def _facts(self, meta: dict[str, Any]) -> Facts:
        extra = self._meta_file()
        created = moment(meta.get("createdAt")) or moment(extra.get("createdAtMs"))
        updated = moment(extra.get("updatedAtMs")) or _last_change(self._path)
        for at in (created, updated):
            self._fold.moment(at)
        parent = mapping(meta.get("subagentInfo")).get("parentAgentId")
        raw: dict[str, Any] = {key: meta[key] for key in ("mode",) if text(meta.get(key))}
        raw |= self._unknown.raw()
        return self._fold.facts(
            self._session_id,
            kind="session" if text(parent) is None else "subagent",
            parent=text(parent),
            cwd=text(meta.get("workspacePath")) or self._cwd or text(extra.get("cwd")),
            name=_name(extra.get("title")) or _name(meta.get("name")),
            created_at=created,
            models=None if self._has_models else _last_model(meta),
            gaps=(USAGE_NOT_RECORDED,),
            raw=raw,
        )

    def _meta_file(self) -> dict[str, Any]:
        """The record in `meta.json`, where there is one."""
        try:
            return mapping(document(self._path.with_name(CHAT_META_FILE).read_bytes()))
        except OSError:
            return {}


def _name(value: Any) -> str | None:
    name = text(value)
    return None if name == _UNNAMED else name


def _model_of(record: dict[str, Any]) -> str | None:
    options = mapping(mapping(record.get("providerOptions")).get("cursor"))
    return model_name(options.get("modelName"))


def _last_model(meta: dict[str, Any]) -> tuple[str, ...]:
    """The model used last: a name, or an object that has one."""
    used = meta.get("lastUsedModel")
    inner = mapping(used)
    found = (used, inner.get("model"), inner.get("id"), inner.get("name"))
    return tuple(name for name in map(model_name, found) if name is not None)[:1]


def _last_change(path: Path) -> datetime | None:
    """When the database or its log was written last: where nothing else tells the end."""
    times: list[float] = []
    for name in (path.name, f"{path.name}-wal"):
        try:
            times.append(path.with_name(name).stat().st_mtime)
        except OSError:
            continue
    return datetime.fromtimestamp(max(times), UTC) if times else None
