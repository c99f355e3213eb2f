"""Reads chats of cursor-agent: `chats/<md5 of the working directory>/<session id>/store.db`.

A chat is a tree of blobs. A leaf is a message: plain JSON, or (newer builds) JSON in field 4 of a
protobuf message. Any other blob is a protobuf node: field 1 refers to a leaf, field 2 to a subtree,
each by the 32 bytes of its hash. Titles and previews are in the same tree without further nodes: a
missing subtree is no loss, a missing leaf is. Old roots and rewound messages stay in the table; the
conversation consists of the messages that the latest root reaches.

Newer builds write `meta.json` beside the database, and a time and a model into each message. Usage
and cost are not recorded anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

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
_UNNAMED: Final = "New Agent"


class Leaf(NamedTuple):
    """A message and the id of its blob; the message is None if the blob is missing."""

    blob_id: str
    message: dict[str, Any] | None


def walk(root: str, load: Load) -> Iterator[Leaf]:
    """Yield the messages below a root, in order; every node is visited once."""
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
            # Text as long as a hash is not an id.
            waiting += reversed(
                [
                    (value.hex(), number)
                    for number, value in fields(data)
                    if number in _CHILD_FIELDS
                    and len(value) == _HASH_BYTES
                    and not (value.isascii() and value.decode("ascii").isprintable())
                ]
            )


def message_in(data: bytes) -> dict[str, Any] | None:
    """Return the message in a blob; None if the blob is a node."""
    whole = document(data) if data.lstrip()[:1] == b"{" else None
    if is_mapping(whole):
        return whole if "role" in whole else None
    for number, value in fields(data):
        inner = document(value) if number == _MESSAGE_FIELD and value[:1] == b"{" else None
        if is_mapping(inner) and "role" in inner:
            return inner
    return None


def fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the length-delimited fields of a protobuf message, up to the first invalid byte."""
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


class ChatStore:
    """Reads one chat database."""

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
        """Yield the items of the chat, starting at its latest root."""
        meta = self._meta()
        root = text(mapping(meta).get("latestRootBlobId"))
        if meta is None or root is None:
            what = "the database contains no chat"
            yield Problem(code="unknown-format", message=what, path=str(self._path))
            return
        yield Head(session_id=self._session_id)
        for leaf in walk(root, self._load):
            if leaf.message is None:
                lost = f"the chat refers to blob `{leaf.blob_id}`, which is missing"
                problem = Problem(code="bad-record", message=lost, path=str(self._path))
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
        """Return the record with key 0: JSON, usually in hexadecimal digits; None if missing."""
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

    def _messages(self, blob_id: str, record: dict[str, Any]) -> Iterator[SessionMessage]:
        # Equal messages share one blob.
        id = blob_id if blob_id not in self._ids else f"{blob_id}#{len(self._ids)}"
        self._ids.add(id)
        at = moment(record.get("createdAt"))
        parts = Parts(record.get("content"), prefix=id)
        for kind, part in parts.unknown:
            self._unknown.take(kind, part)
        match record.get("role"):
            case "user":
                self._cwd = self._cwd or workspace_in(parts.text)
                yield from prompt_messages(parts.text, id=id, at=at)
            case "assistant":
                options = mapping(mapping(record.get("providerOptions")).get("cursor"))
                model = model_name(options.get("modelName"))
                yield replace(parts.answer(), model=model, timestamp=at, id=id)
            case "system":
                yield SessionMessage(role="system", content=parts.text, id=id, synthetic=True)
            case "tool":
                for result in parts.results:
                    yield tool_message(result, at=at)
            case role:
                self._unknown.take(f"message:{plain_text(role)}", record)

    def _facts(self, meta: dict[str, Any]) -> Facts:
        try:
            extra = mapping(document(self._path.with_name(CHAT_META_FILE).read_bytes()))
        except OSError:
            extra = {}
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


def _name(value: Any) -> str | None:
    name = text(value)
    return None if name == _UNNAMED else name


def _last_model(meta: dict[str, Any]) -> tuple[str, ...]:
    """Return the model used last, recorded as a name or as an object with a name."""
    used = meta.get("lastUsedModel")
    inner = mapping(used)
    found = (used, inner.get("model"), inner.get("id"), inner.get("name"))
    return tuple(name for name in map(model_name, found) if name is not None)[:1]


def _last_change(path: Path) -> datetime | None:
    """Return when the database or its write-ahead log was last written; None if unknown.

    It serves as the end of the session if no end is recorded.
    """
    times: list[float] = []
    for name in (path.name, f"{path.name}-wal"):
        try:
            times.append(path.with_name(name).stat().st_mtime)
        except OSError:
            continue
    return datetime.fromtimestamp(max(times), UTC) if times else None
