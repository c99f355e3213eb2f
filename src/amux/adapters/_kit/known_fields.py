"""The fields of an agent's records that amux knows: those it reads, and those it has seen.

An agent may have a file `known_fields.txt` in its package. `amux doctor --unknown` compares the
records on a disk with it. Each line is a name, a colon and words; indented lines continue:

    types         the paths of the fields whose values make up the type of a record
    inner         the paths of objects whose fields are compared as well
    items         the field of a JSON document with a list of records
    read <path>   structs with the fields that the adapter reads, also of an inner object
    seen          ends these lines; then follow record types and the fields that captures have

A record is a line of a JSON log, the root of a JSON document (of type `document`), an item of a
list in a document, or a table of a database (of type `table:<name>`, its fields are the columns).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pkgutil import resolve_name
from typing import Any, Final

import msgspec

DOCUMENT: Final = "document"
NO_TYPE: Final = "record"
"""The type of a record that has none of the fields that determine a type."""

Fields = Mapping[str, msgspec.Raw]

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_JSON_TYPES: Final = {
    ord('"'): "string",
    ord("{"): "object",
    ord("["): "array",
    ord("t"): "boolean",
    ord("f"): "boolean",
    ord("n"): "null",
}
_LONGEST_TYPE: Final = 200


class KnownFields:
    """The known fields of one agent, from the text of its file."""

    def __init__(self, text: str) -> None:
        settings, _, seen = text.replace("\n  ", " ").partition("\nseen:\n")
        words = {name: found.split() for name, found in _pairs(settings, ":")}
        self._types = words.get("types", [])
        self._inner = words.get("inner", [])
        self.items = next(iter(words.get("items", ())), None)
        self.seen = {name: frozenset(found.split()) for name, found in _pairs(seen, " =")}
        self._read = {
            f"{name.removeprefix('read').strip()}.{field}".removeprefix(".")
            for name, structs in words.items()
            if name.startswith("read")
            for struct in structs
            for field in _struct_fields(struct)
        }

    def is_known(self, record_type: str, field: str) -> bool:
        """Return whether a field of a record was seen or is read."""
        return field in self._read or field in self.seen.get(record_type, ())

    def type_of(self, fields: Fields) -> str:
        """Return the type of a record: the values of the fields that determine it."""
        found = (_text(_at(fields, path)) for path in self._types)
        return "/".join(filter(None, found)) or NO_TYPE

    def fields_of(self, fields: Fields) -> Iterator[tuple[str, str]]:
        """Yield the path and the JSON type of every field that is compared."""
        yield from ((name, json_type(value)) for name, value in fields.items())
        for path in self._inner:
            value = _at(fields, path)
            for name, inner in ({} if value is None else decode_object(value)).items():
                yield f"{path}.{name}", json_type(inner)


def _pairs(text: str, separator: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values of lines with a separator, without comments."""
    for line in text.splitlines():
        name, found, value = line.partition(separator)
        if found and not name.startswith("#"):
            yield name, value


def _struct_fields(name: str) -> tuple[str, ...]:
    module, _, struct = name.rpartition(".")
    found: type[msgspec.Struct] = resolve_name(f"amux.adapters.{module}:{struct}")
    return found.__struct_encode_fields__


def decode_object(data: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """Return the fields of a JSON object, undecoded; empty if the data is anything else."""
    try:
        return _OBJECT.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}


def json_type(value: msgspec.Raw) -> str:
    """Return the name of a value's JSON type."""
    data = memoryview(value)
    return _JSON_TYPES.get(data[0], "number") if data else "null"


def _at(fields: Fields, path: str) -> msgspec.Raw | None:
    """Return the value at a path of names; None if there is none."""
    name, _, rest = path.partition(".")
    value = fields.get(name)
    if value is None or not rest:
        return value
    return _at(decode_object(value), rest)


def _text(value: msgspec.Raw | None) -> str | None:
    if value is None or len(memoryview(value)) > _LONGEST_TYPE:
        return None
    try:
        found: Any = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError):
        return None
    return found if isinstance(found, str) else None
