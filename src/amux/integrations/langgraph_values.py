"""How the values of LangGraph's channels lie in a thread of the store.

The bytes and the tag that a serialiser made are stored untouched: inline as base64 if they are few,
else as a blob. A list is stored by its elements, also if it is in a dictionary. An element is a
record of its own that any number of lists and writes refer to, and a list is the beginning of an
earlier list and the ids of the elements after it. So a conversation grows by its new messages,
however often it is stored.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, TypeGuard

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from amux.errors import StoreError
from amux.rollout.log import ThreadLog
from amux.rollout.records import NewRecord, as_mapping, new_record_id

ELEMENT: Final = "element"

BLOB_BYTES: Final = 8 * 1024
"""Values from this size on are blobs: they are not read with the records."""

_INLINE_BYTES: Final = 64
"""Elements up to this size stand in their list: a record of their own would be larger."""

_NUMBERS: Final = (int, float, complex, type(None))

Fingerprint = tuple[str, bytes | str]
"""The tag and the bytes of what was serialised, before any encryption; of a blob its digest."""


class Encoded(NamedTuple):
    """A serialised value: its tag, and its bytes or the digest of the blob that holds them."""

    tag: str
    data: bytes = b""
    blob: str | None = None

    def payload(self) -> dict[str, Any]:
        """Return the value as JSON."""
        if self.blob is not None:
            return {"tag": self.tag, "blob": self.blob}
        return {"tag": self.tag, "data": b64encode(self.data).decode()}

    @property
    def blobs(self) -> tuple[str, ...]:
        """The blobs that a record with this value refers to."""
        return () if self.blob is None else (self.blob,)


class ListValue:
    """A list: the first `keep` elements of an earlier list, and the items after them.

    An item is the id of a record with an element, or a small element itself. `owner` is the id of
    the record that describes the list. `base` is None if the list has no earlier one, and also if
    the record of the earlier one is missing.
    """

    __slots__ = ("_all", "base", "items", "keep", "owner")

    def __init__(
        self,
        owner: str,
        items: Sequence[str | Encoded],
        base: ListValue | None = None,
        keep: int = 0,
    ) -> None:
        self.owner = owner
        self.items = tuple(items)
        self.base = base
        self.keep = keep
        self._all: tuple[str | Encoded, ...] | None = None

    def all_items(self) -> tuple[str | Encoded, ...]:
        """Return the items of the whole list.

        Raises:
            StoreError: A record that the list builds on was removed.
        """
        if self._all is not None:
            return self._all
        parts: list[tuple[str | Encoded, ...]] = []
        value, count = self, self.keep + len(self.items)
        while count:
            if value._all is not None:
                parts.append(value._all[:count])
                break
            if count > value.keep:
                parts.append(value.items[: count - value.keep])
            count = min(count, value.keep)
            if count and value.base is None:
                raise missing_record(value.owner)
            value = value.base or value
        return tuple(chain.from_iterable(reversed(parts)))

    def supersede(self, earlier: ListValue | None) -> None:
        """Keep all items at hand, as the latest list of a channel does, instead of an earlier one.

        Most lists continue the latest one, and most readers want that one.
        """
        self._all = _readable_items(self) or None
        if earlier is not None and earlier is not self:
            earlier._all = None  # noqa: SLF001  # an object of this class

    def payload(self) -> dict[str, Any]:
        """Return the description of the list as JSON."""
        items = [item if isinstance(item, str) else item.payload() for item in self.items]
        if self.base is None:
            return {"items": items}
        return {"base": self.base.owner, "keep": self.keep, "items": items}


class DictValue(NamedTuple):
    """A dictionary with lists in it, such as the input of a graph: its fields are values."""

    fields: dict[str, Encoded | ListValue]

    def payload(self) -> dict[str, Any]:
        """Return the description of the dictionary as JSON."""
        return {"fields": {name: value.payload() for name, value in self.fields.items()}}


ChannelValue = Encoded | ListValue | DictValue


class Elements:
    """The elements of a thread by record id, and by what they contain."""

    def __init__(self) -> None:
        self.by_id: dict[str, Encoded] = {}
        self._ids: dict[Fingerprint, str] = {}
        self._new: list[str] = []  # ids whose fingerprints are not known yet

    def add(self, record_id: str, element: Encoded) -> None:
        """Add an element; its fingerprint is computed when it is needed."""
        self.by_id[record_id] = element
        self._new.append(record_id)

    def find(self, fingerprint: Fingerprint, codec: ValueCodec) -> str | None:
        """Return the id of the element with some content; None if the thread has none."""
        if self._new:
            for record_id in self._new:
                self._ids[codec.fingerprint_of(self.by_id[record_id])] = record_id
            self._new.clear()
        return self._ids.get(fingerprint)


class NewValues:
    """The records of new elements that some values need, in order."""

    def __init__(self) -> None:
        self.records: list[NewRecord] = []
        self.ids: dict[Fingerprint, str] = {}

    def add(self, element: Encoded, fingerprint: Fingerprint) -> str:
        """Add an element and return the id of its record."""
        record_id = new_record_id()
        payload = {"type": ELEMENT, **element.payload()}
        self.records.append(
            NewRecord(payload=payload, id=record_id, parent_id=None, blobs=element.blobs)
        )
        self.ids[fingerprint] = record_id
        return record_id


class ValueCodec:
    """Encodes values with a serialiser of LangGraph, and decodes them."""

    def __init__(self, log: ThreadLog, serde: SerializerProtocol) -> None:
        self._log = log
        self._serde = serde
        self._cipher = serde if isinstance(serde, EncryptedSerializer) else None

    def encode(self, value: object) -> Encoded:
        """Return a value as a whole."""
        return self._stored(*self._serde.dumps_typed(value))

    def encode_value(
        self,
        value: object,
        elements: Elements,
        new: NewValues,
        owner: str,
        base: ListValue | None = None,
    ) -> ChannelValue:
        """Return the value of a channel or a write; elements it needs are added to `new`.

        `base` is the earlier list that a list probably continues.
        """
        if _is_divisible(value):
            return self._encode_list(value, elements, new, owner, base)
        if type(value) is dict and any(map(_is_divisible, value.values())):
            fields = {
                name: self._encode_list(each, elements, new, owner)
                if _is_divisible(each)
                else self.encode(each)
                for name, each in value.items()
            }
            if all(isinstance(name, str) for name in fields):
                return DictValue(fields)
        return self.encode(value)

    def _encode_list(
        self,
        value: list[Any],
        elements: Elements,
        new: NewValues,
        owner: str,
        base: ListValue | None = None,
    ) -> ListValue:
        items = tuple(self._item(each, elements, new) for each in value)
        known = () if base is None else _readable_items(base)
        keep = _common_length(known, items)
        return ListValue(owner, items[keep:], base if keep else None, keep)

    def _item(self, element: object, elements: Elements, new: NewValues) -> str | Encoded:
        plain = self._serde if self._cipher is None else self._cipher.serde
        tag, data = plain.dumps_typed(element)
        if self._cipher is None and len(data) <= _INLINE_BYTES:
            return Encoded(tag, data)
        fingerprint = _fingerprint(tag, data)
        found = elements.find(fingerprint, self) or new.ids.get(fingerprint)
        if found is not None:
            return found
        if self._cipher is not None:
            tag, data = self._serde.dumps_typed(element)
        return new.add(self._stored(tag, data), fingerprint)

    def _stored(self, tag: str, data: bytes) -> Encoded:
        if len(data) < BLOB_BYTES:
            return Encoded(tag, data)
        return Encoded(tag, blob=self._log.put_blob(data))

    def decode(self, value: ChannelValue, elements: Elements) -> Any:
        """Return what a value was made from.

        Raises:
            StoreError: A record or a blob that the value consists of was removed.
        """
        if isinstance(value, Encoded):
            return self._serde.loads_typed((value.tag, self._bytes(value)))
        if isinstance(value, DictValue):
            return {name: self.decode(each, elements) for name, each in value.fields.items()}
        load, by_id = self._serde.loads_typed, elements.by_id
        decoded: list[Any] = []
        for item in value.all_items():
            element = by_id.get(item) if isinstance(item, str) else item
            if element is None:
                raise missing_record(str(item))
            tag, data, blob = element
            decoded.append(load((tag, data if blob is None else self._log.get_blob(blob))))
        return decoded

    def fingerprint_of(self, element: Encoded) -> Fingerprint:
        """Return the fingerprint of a stored element."""
        if self._cipher is not None and "+" in element.tag:
            tag, cipher_name = element.tag.split("+", 1)
            return _fingerprint(tag, self._cipher.cipher.decrypt(cipher_name, self._bytes(element)))
        return element.tag, element.blob or element.data

    def _bytes(self, value: Encoded) -> bytes:
        return value.data if value.blob is None else self._log.get_blob(value.blob)


def encoded_in(payload: Mapping[str, Any]) -> Encoded:
    """Return the serialised value that a payload states."""
    blob = payload.get("blob")
    if isinstance(blob, str):
        return Encoded(str(payload.get("tag")), blob=blob)
    return Encoded(str(payload.get("tag")), b64decode(payload.get("data", "")))


def fields_in(payload: Mapping[str, Any], owner: str) -> DictValue:
    """Return the dictionary that a payload describes; its lists build on no others."""
    return DictValue(
        {
            name: ListValue(owner, items_in(each)) if "items" in each else encoded_in(each)
            for name, each in payload["fields"].items()
        }
    )


def element_ids(value: ChannelValue) -> set[str]:
    """Return the ids of the records of the elements that a value consists of."""
    if isinstance(value, DictValue):
        return {each for field in value.fields.values() for each in element_ids(field)}
    items = value.all_items() if isinstance(value, ListValue) else []
    return {item for item in items if isinstance(item, str)}


def items_in(payload: Mapping[str, Any]) -> list[str | Encoded]:
    """Return the items of the list that a payload describes."""
    return [each if isinstance(each, str) else encoded_in(each) for each in payload["items"]]


def blobs_in(payload: object) -> tuple[str, ...]:
    """Return the blobs that values in a payload refer to, at any depth."""
    if isinstance(payload, list):
        return tuple(blob for each in payload for blob in blobs_in(each))
    found = as_mapping(payload)
    own = found.get("blob")
    inner = tuple(blob for each in found.values() for blob in blobs_in(each))
    return (own, *inner) if isinstance(own, str) and "tag" in found else inner


def missing_record(record_id: str) -> StoreError:
    """Return the error for a value of which a part was removed."""
    return StoreError(
        f"a value of the thread builds on the record `{record_id}`, or is in it, and a part of it "
        "was removed",
        hint="use an earlier or a later checkpoint of the thread",
    )


def _is_divisible(value: object) -> TypeGuard[list[Any]]:
    """Return whether a value is stored by its elements: a list, but not one of numbers."""
    return type(value) is list and not all(isinstance(each, _NUMBERS) for each in value)


def _readable_items(value: ListValue) -> tuple[str | Encoded, ...]:
    """Return the items of a list; none if a record that it builds on was removed."""
    try:
        return value.all_items()
    except StoreError:
        return ()


def _common_length(known: tuple[str | Encoded, ...], items: tuple[str | Encoded, ...]) -> int:
    """Return how many items two lists begin with alike; mostly one continues the other."""
    if items[: len(known)] == known:
        return len(known)
    pairs = enumerate(zip(known, items, strict=False))
    differing = (place for place, (one, other) in pairs if one != other)
    return next(differing, min(len(known), len(items)))


def _fingerprint(tag: str, data: bytes) -> Fingerprint:
    """Return what an element is recognised by: few bytes themselves, many by their digest."""
    return tag, data if len(data) < BLOB_BYTES else hashlib.sha256(data).hexdigest()
