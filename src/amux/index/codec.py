"""Values as bytes and back, without loss: file names may hold what is no Unicode.

Such a value is rare. It begins with a byte that no other begins with, and every lone surrogate in
it is written as a mark and a character of the private area.
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
"""Begins no MessagePack and no JSON value."""

_MARK: Final = "\ufdd0"
_TO_PRIVATE: Final = 0xE000 - 0xD800
_UNSAFE: Final = re.compile(f"[\ud800-\udfff{_MARK}]")
_ESCAPED: Final = re.compile(f"{_MARK}(.)", re.DOTALL)


def pack(value: object) -> bytes:
    """A value of the model as bytes."""
    try:
        return msgspec.msgpack.encode(value)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, builtin_types=(bytes, datetime))
        return ODD + msgspec.msgpack.encode(_map(plain, _escape))


def unpack(data: bytes, decoder: msgspec.msgpack.Decoder[T]) -> T:
    """The value again; raises IndexDecodeError for what `pack` has not made."""
    try:
        if not data.startswith(ODD):
            return decoder.decode(data)
        plain = _map(msgspec.msgpack.decode(data[1:]), _unescape)
        return msgspec.convert(plain, decoder.type, builtin_types=(bytes, datetime))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise IndexDecodeError(str(error)) from error


def storable(text: str) -> str:
    """A text as a column can hold it; for comparing and sorting only."""
    return text.encode("utf-8", "replace").decode()


def _escape(text: str) -> str:
    return _UNSAFE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return _MARK + (_MARK if match[0] == _MARK else chr(code + _TO_PRIVATE))


def _unescape(text: str) -> str:
    return _ESCAPED.sub(
        lambda match: _MARK if match[1] == _MARK else chr(ord(match[1]) - _TO_PRIVATE), text
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


def decode_spending(data: bytes) -> tuple[Spending]:
    """Return the stored spending, the only value in the bytes."""
    return (unpack(data, _SPENDING),)


def decode_hours(data: bytes) -> tuple[HourlySpending]:
    """Return the stored hourly spending, the only value in the bytes."""
    return (unpack(data, _HOURS),)
