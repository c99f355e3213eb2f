"""Encodes values as bytes without loss, although file names may contain invalid Unicode.

A value with invalid Unicode is rare. It begins with a byte that no other value begins with, and
every lone surrogate in it is written as a noncharacter and a character of the private area.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypeVar, cast

import msgspec

from amux.assembly.ledger import HourlySpending, Spending
from amux.index.errors import IndexDecodeError

T = TypeVar("T")

ODD: Final = b"\xc1"
"""The first byte of a value with invalid Unicode; no MessagePack or JSON value begins with it."""

_ESCAPE: Final = "\ufdd0"
_TO_PRIVATE: Final = 0xE000 - 0xD800
_UNSAFE: Final = re.compile(f"[\ud800-\udfff{_ESCAPE}]")
_ESCAPED: Final = re.compile(f"{_ESCAPE}(.)", re.DOTALL)


def pack(value: object) -> bytes:
    """Return a value of the model as bytes."""
    try:
        return msgspec.msgpack.encode(value)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, builtin_types=(bytes, datetime))
        return ODD + msgspec.msgpack.encode(_map(plain, _escape))


def unpack(data: bytes, decoder: msgspec.msgpack.Decoder[T]) -> T:
    """Return the value again; raise IndexDecodeError for anything that `pack` did not write."""
    try:
        if not data.startswith(ODD):
            return decoder.decode(data)
        plain = _map(msgspec.msgpack.decode(data[1:]), _unescape)
        return msgspec.convert(plain, decoder.type, builtin_types=(bytes, datetime))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise IndexDecodeError(str(error)) from error


def storable(text: str) -> str:
    """Return a text as a column can hold it, for comparing and sorting only."""
    return text.encode("utf-8", "replace").decode()


def _escape(text: str) -> str:
    def escaped(match: re.Match[str]) -> str:
        return _ESCAPE + (_ESCAPE if match[0] == _ESCAPE else chr(ord(match[0]) + _TO_PRIVATE))

    return _UNSAFE.sub(escaped, text)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(
        lambda match: _ESCAPE if match[1] == _ESCAPE else chr(ord(match[1]) - _TO_PRIVATE), text
    )


def _map(value: Any, change: Callable[[str], str]) -> Any:
    match value:
        case str():
            return change(value)
        case dict():
            items = cast("dict[str, Any]", value).items()
            return {_map(key, change): _map(inner, change) for key, inner in items}
        case list() | tuple():
            return [_map(inner, change) for inner in cast("list[Any]", value)]
        case _:
            return value


_SPENDING: Final = msgspec.msgpack.Decoder(Spending)
_HOURS: Final = msgspec.msgpack.Decoder(HourlySpending)


def decode_spending(data: bytes) -> Spending:
    """Return the stored spending."""
    return unpack(data, _SPENDING)


def decode_hours(data: bytes) -> HourlySpending:
    """Return the stored hourly spending."""
    return unpack(data, _HOURS)
