"""Converts values of unknown types; an unusable value is None and never raises an exception.

Databases and documents of other programs may hold any type in any field. These functions return a
decoded value in one type or not at all, so that an invalid cell costs only that cell. Times are
returned as aware UTC. The module also has the tests for injected text that several agents share.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeGuard, TypeVar

import msgspec

from amux.adapters._kit.jsonl import Buffer, clean_line
from amux.model.incomplete import USAGE_UNUSABLE
from amux.model.usage import NANO

T = TypeVar("T")

Wide = str | int | float | bool | list[Any] | dict[str, Any] | None
"""Any JSON value, for fields that are used only if they have the expected type."""

Odd = str | int | float | bool | list[Any] | None
"""Any JSON value except an object, where a struct is expected."""


_LARGEST = 2**53  # what JSON numbers can hold exactly; no agent bills more tokens
_BOM = b"\xef\xbb\xbf"
_DOCUMENT = msgspec.json.Decoder()
_SECONDS_BELOW = 1e11  # larger numbers are milliseconds (1e11 s is the year 5138)
_MILLIS_BELOW = 1e14  # larger ones are microseconds
_TIMES_BELOW = 1e18  # past the year 9999 in microseconds; JSON holds integers no float can
_IMAGE_TYPE = re.compile(r"image/[\w.+-]{1,40}")
_LOWER_CASE_TAG = re.compile(r"\s*<[a-z][\w-]*[\s>/]")


def is_mapping(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a decoded value is an object."""
    return isinstance(value, dict)


def is_items(value: object) -> TypeGuard[list[Any]]:
    """Return whether a decoded value is an array."""
    return isinstance(value, list)


def mapping(value: object) -> dict[str, Any]:
    """Return the value if it is an object, else an empty one."""
    return value if is_mapping(value) else {}


def items(value: object) -> list[Any]:
    """Return the value if it is an array, else an empty one."""
    return value if is_items(value) else []


def text(value: object) -> str | None:
    """Return the value if it is a string that is not blank, else None."""
    return value if isinstance(value, str) and value.strip() else None


def number(value: object) -> float | None:
    """Return the value if it is a finite number that is not negative, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _LARGEST else None


def count(value: object) -> int | None:
    """Return the value if it is a whole number that is not negative, else None."""
    found = number(value)
    return None if found is None or found != math.floor(found) else int(found)


def damage_in(usage: Mapping[str, Any], *names: str) -> tuple[str, ...]:
    """Return the gap `USAGE_UNUSABLE` if one of the named fields is not a count, else nothing.

    The real count is then unknown, which is not the same as 0.
    """
    figures = (usage.get(name) for name in names)
    odd = any(figure is not None and figure != "" and count(figure) is None for figure in figures)
    return (USAGE_UNUSABLE,) if odd else ()


def moment(value: object) -> datetime | None:
    """Return the time in ISO text or a Unix time (also as text); None for any other value."""
    if isinstance(value, str):
        plain = value.strip()
        is_unix = plain.isdecimal() and len(plain) in range(9, 17)
        return parse_time(value) or (parse_time(int(plain)) if is_unix else None)
    found = number(value)
    return None if found is None else parse_time(found)


def nano_usd(value: object) -> int | None:
    """Convert an amount in USD to integer nano-USD; None if it is not an amount."""
    usd = number(value)
    return None if usd is None else round(usd * NANO)


def first(row: Mapping[str, Any], *names: str) -> Any:
    """Return the first of several fields that is neither None nor empty text; else None."""
    for name in names:
        value = row.get(name)
        if value is not None and value != "":
            return value
    return None


def decode(raw: Buffer | str, decoder: msgspec.json.Decoder[T]) -> T | None:
    """Decode JSON, replacing invalid Unicode; None if it is not valid JSON."""
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        data = raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else raw
    try:
        return decoder.decode(clean_line(data.removeprefix(_BOM)))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def document(raw: object) -> Any:
    """Return the value of JSON text or bytes; None if it is not JSON."""
    if isinstance(raw, str | bytes | bytearray):
        return decode(raw, _DOCUMENT)
    return None


def plain_text(value: object) -> str:
    """Return a string unchanged, None as an empty string, and any other value as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def parse_time(value: str | float | None) -> datetime | None:
    """Parse ISO 8601 text, or Unix seconds, milliseconds or microseconds; None if it is no time."""
    if isinstance(value, str):
        return _parse_text(value)
    if value is None or isinstance(value, bool) or not 0 < value < _TIMES_BELOW:  # nor NaN
        return None
    seconds = value
    if value >= _MILLIS_BELOW:
        seconds = value / 1e6
    elif value >= _SECONDS_BELOW:
        seconds = value / 1e3
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def _parse_text(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is UTC:
            return moment
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def to_millis(moment: datetime | None) -> int:
    """Return Unix milliseconds; 0 for None, as a trace stores it."""
    return 0 if moment is None else round(moment.timestamp() * 1000)


def image_url(media_type: object, data: object) -> str | None:
    """Return a pasted image as a data URL; None if its type or its data is missing or invalid."""
    kind, content = text(media_type), text(data)
    if kind is None or content is None or not _IMAGE_TYPE.fullmatch(kind):
        return None
    return f"data:{kind};base64,{content}"


def opens_with_tag(text: str) -> bool:
    """Return whether a text begins with a lower-case tag such as `<system-reminder>`."""
    return _LOWER_CASE_TAG.match(text) is not None


def starts_with_any(text: str, phrases: tuple[str, ...]) -> bool:
    """Return whether a text begins with one of the phrases, ignoring leading white space."""
    return text.lstrip().startswith(phrases)
