"""JSON text that is safe to print and to read line by line.

The bytes are msgspec's; characters that some reader takes for a line end or a command (DEL, C1
controls, line separators, direction overrides) are written as escapes. They mean the same to every
JSON parser. Halves of surrogate pairs, which only come from undecodable file names and which strict
parsers refuse, become U+FFFD.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

import msgspec

_UNSAFE: Final = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def to_json_text(value: Any, *, indent: int | None = None) -> str:
    """Any model or JSON value as JSON, on one line or indented."""
    encoded = _encode(value)
    if indent is not None:
        encoded = msgspec.json.format(encoded, indent=indent)
    return _UNSAFE.sub(_escape, encoded.decode())


def _encode(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_without_surrogates(msgspec.to_builtins(value, str_keys=True)))


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        mapping = cast("dict[str, Any]", value)
        return {_without_surrogates(key): _without_surrogates(mapping[key]) for key in mapping}
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in cast("list[Any]", value)]
    return value
