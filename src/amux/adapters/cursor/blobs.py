"""The tree of blobs in a chat of cursor-agent.

A leaf is a message: plain JSON, or (newer builds) JSON in field 4 of a protobuf message. Any other
blob is a protobuf node: field 1 names a leaf, field 2 a subtree, each by the 32 bytes of its hash.
Titles and previews hang in the same tree and lead nowhere: a subtree that is not there is no loss,
a leaf is. Old roots and rewound messages stay in the table; only what the latest root reaches is
the conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from amux.adapters._kit.values import document, is_mapping

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
