"""The base of the public types: frozen, keyword-only, camelCase in JSON, empty fields omitted."""

from __future__ import annotations

import re
from typing import Any, cast

import msgspec

_LONE_SURROGATES = "[\ud800-\udfff]"


class Model(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    """Base class of the public types. A field without a default is always written to JSON."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form as Python objects: camelCase keys, ISO dates, no empty fields."""
        return cast("dict[str, Any]", msgspec.json.decode(self.to_json()))

    def to_json(self) -> bytes:
        """Return the JSON form as compact UTF-8 bytes."""
        return encode_json(self)


def encode_json(value: object) -> bytes:
    """Return the compact JSON of any value. Lone surrogates (from file names) become U+FFFD."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_encodable(msgspec.to_builtins(value, str_keys=True)))


def _encodable(value: Any) -> Any:
    """Return a JSON value with every lone surrogate replaced."""
    match value:
        case str():
            return re.sub(_LONE_SURROGATES, "\ufffd", value)
        case dict():
            items = cast("dict[str, Any]", value).items()
            return {_encodable(key): _encodable(inner) for key, inner in items}
        case list() | tuple():
            return [_encodable(inner) for inner in cast("list[Any]", value)]
        case _:
            return value
