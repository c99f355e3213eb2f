"""What a reading of a rollout knows at the end of a line, put away as bytes and taken up again."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from amux.adapters.codex.track import Rows

T = TypeVar("T")


def save(state: object) -> bytes | None:
    """A state as bytes; None for what has none: odd figures, a file's name that is no text."""
    try:
        return msgspec.msgpack.encode(state, enc_hook=Rows.columns)
    except (OverflowError, RecursionError, UnicodeError):
        return None


def restore(data: bytes, kind: type[T]) -> T | None:
    """A state again; None when it is nothing that this version understands."""
    try:
        found: T = _decoder(cast("Any", kind)).decode(data)
    except (msgspec.MsgspecError, ValueError):
        return None
    return found


@cache
def _decoder(kind: type[Any]) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind, dec_hook=_rows)


def _rows(kind: type, columns: list[bytes]) -> Rows:
    """The only type of a state that is no plain data."""
    del kind
    return Rows(*columns)
