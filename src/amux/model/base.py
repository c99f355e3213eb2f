"""What all public types share: frozen, keyword-only, camelCase in JSON, empty fields left out."""

from __future__ import annotations

from typing import Any, cast

import msgspec


class Model(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    """Base of the public types. A field without a default is always written to JSON."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form as Python objects: camelCase keys, ISO dates, empty optionals absent."""
        return cast("dict[str, Any]", msgspec.to_builtins(self, str_keys=True))

    def to_json(self) -> bytes:
        """The JSON form as compact UTF-8 bytes."""
        return msgspec.json.encode(self)
