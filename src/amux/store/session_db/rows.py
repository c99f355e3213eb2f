"""Values as the tables hold them: JSON as text, structured content behind a prefix, rows as dicts.

Content that is a list or an object is stored as JSON behind a NUL character and the word `json:`,
so that it cannot be taken for text. Text that is not valid JSON where JSON is expected is returned
as it is: a damaged value never hides the rest of a row.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any, Final, TypeAlias, cast

from amux.errors import ValidationError

Row: TypeAlias = dict[str, Any]
"""A row of a table or of a query, by column name."""

_STRUCTURED: Final = "\x00json:"
_CONTEXT_LENGTH: Final = 200
_LARGEST_TIME: Final = 1e12


def row_of(row: sqlite3.Row) -> Row:
    """Return a row as a dict."""
    return dict(zip(row.keys(), row, strict=True))


def encode_text(value: object) -> str | None:
    """Return a value as text: None stays None, lone surrogates become replacement characters."""
    if value is None:
        return None
    return _valid(value if isinstance(value, str) else str(value))


def encode_time(value: object, field: str) -> float:
    """Return a time in Unix seconds; anything else is an error."""
    if isinstance(value, int | float) and -_LARGEST_TIME < value < _LARGEST_TIME:
        return float(value)
    raise ValidationError(f"`{field}` must be Unix seconds", fields=(field,))


def encode_json(value: object, field: str) -> str | None:
    """Return a value as JSON text; None for None, an empty list and an empty object."""
    if value is None or value in ([], {}, ""):
        return None
    return _dump(value, field)


def encode_content(content: object) -> str | None:
    """Return the content of a message as text."""
    if not _is_collection(content):
        text = encode_text(content)
        if text is None or not text.startswith(_STRUCTURED):
            return text
    return _STRUCTURED + _dump(content, "content")


def decode_content(text: object) -> Any:
    """Return the content of a message: text, or the list or object that was stored."""
    if isinstance(text, str) and text.startswith(_STRUCTURED):
        return decode_json(text.removeprefix(_STRUCTURED), otherwise=text)
    return text


def decode_json(text: object, *, otherwise: object = None) -> Any:
    """Return the value of JSON text; `otherwise` or the text itself if it is not JSON."""
    if not isinstance(text, str) or not text:
        return text
    try:
        return json.loads(text)  # noqa: TID251 - the counterpart of `dumps`, huge integers included
    except (ValueError, RecursionError):
        return text if otherwise is None else otherwise


def decode_object(text: object) -> Row:
    """Return the object of JSON text; an empty one if it is anything else."""
    value = decode_json(text)
    return cast("Row", value) if isinstance(value, dict) else {}


def plain_text(text: object) -> str:
    """Return the readable text of stored content: of structured content, its parts of text."""
    content = decode_content(text)
    if isinstance(content, dict | list):
        parts = cast("list[object]", content if isinstance(content, list) else [content])
        return "\n".join(filter(None, map(_text_of, parts)))
    return "" if content is None else str(content)


def shortened(text: object) -> str:
    """Return the readable text of stored content, cut to the length of a neighbour in a search."""
    return plain_text(text)[:_CONTEXT_LENGTH]


def count_tool_calls(tool_calls: Any) -> int:
    """Return the number of tool calls of a message: the length of a list, else one or none."""
    if isinstance(tool_calls, (list, tuple)):
        return len(cast("list[object]", tool_calls))
    return 1 if tool_calls else 0


def _is_collection(value: object) -> bool:
    return isinstance(value, list | tuple | dict)


def _text_of(part: object) -> str:
    text = cast("Row", part).get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else ""


def _dump(value: object, field: str) -> str:
    try:
        return _valid(json.dumps(value, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValidationError(f"`{field}` is not JSON: {error}", fields=(field,)) from error


def _valid(text: str) -> str:
    """Return a text that UTF-8 can encode."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
