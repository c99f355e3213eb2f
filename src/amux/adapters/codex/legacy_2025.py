"""Codex formats before the envelope of version 0.32 (2025).

Document  TypeScript CLI: `{session: {id, timestamp, instructions}, items: [...]}` in one file. Two
          writers could race and leave a whole document followed by the rest of another one, so
          every item that can be found is recovered.
Bare      Rust CLI up to 0.31: a head line `{id, timestamp, ...}`, then Responses API items, one per
          line, and state lines without content.

Neither format records usage, model or the times of items. Both are converted to the records of
later versions. According to the specification a bare line may contain all of these itself, under
any of the usual names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from amux.adapters._kit.jsonl import Buffer, clean_line, unreadable
from amux.adapters._kit.usage import usage_in_message
from amux.adapters._kit.values import parse_time
from amux.adapters.codex.records import ITEM_TYPES, Line, Record, body, is_list, is_object
from amux.model.problems import Problem

_DECODER: Final = json.JSONDecoder()
_LARGEST: Final = 64 << 20  # the only format that must be in memory as a whole
_MOST_FAILURES: Final = 1000  # keeps recovery linear in a file of nothing but brackets


def bare_record(number: int, line: Line, raw: Buffer) -> Record:
    """Convert a line without an envelope: head, item or state; others keep their type."""
    kind = line.type or "unknown"
    if line.record_type is not None:
        kind = line.record_type
    elif line.type in ITEM_TYPES or (line.type is None and line.role is not None):
        kind = "response_item"
        if line.type is None:  # a message of the simplest form, `{role, content}`
            raw = bytes(raw).replace(b"{", b'{"type":"message",', 1)
    elif line.type is None and line.id is not None:
        kind = "session_meta"
    payload = msgspec.Raw(bytes(raw))
    answer = body(payload) if kind == "response_item" and line.role == "assistant" else None
    fields = answer if is_object(answer) else {}
    model = fields.get("model")
    return Record(
        key=number,
        line=number,
        kind=kind,
        payload=payload,
        at=parse_time(line.timestamp),
        model=model if isinstance(model, str) and model.strip() else None,
        stated=usage_in_message(fields),
    )


def read_document(path: Path) -> Iterator[Record | Problem]:
    """Yield the records of a session stored as one document."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_LARGEST + 1)
    except OSError as error:
        yield unreadable(path, error)
        return
    if len(data) > _LARGEST:
        message = f"a one-document session of more than {_LARGEST >> 20} MiB cannot be read"
        yield Problem(code="unknown-format", message=message, path=str(path))
        return
    text = clean_line(data).decode("utf-8").removeprefix("\ufeff")
    session, items, intact = _parse(text)
    if not intact:
        message = "the document is not valid JSON; only items that could be recovered are shown"
        yield Problem(code="bad-line", message=message, path=str(path))
    started = session.get("timestamp")
    at = parse_time(started) if isinstance(started, str | int | float) else None
    head: dict[str, Any] = {name: session[name] for name in ("id", "timestamp") if name in session}
    if head:
        yield Record(key=0, line=1, kind="session_meta", payload=_raw(head), at=at)
    for number, item in enumerate(items, start=1):
        yield Record(key=number, line=1, kind="response_item", payload=_raw(item))


def _raw(value: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def _parse(text: str) -> tuple[dict[str, Any], list[dict[str, Any]], bool]:
    start = len(text) - len(text.lstrip())
    try:
        document, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        document, end = None, start
    if not is_object(document):
        session, items = _sort(_salvage(text, start))
        return session, items, False
    listed = document.get("items")
    session, items = _sort([document.get("session"), *(listed if is_list(listed) else [])])
    rest = text[end:]
    if not rest.strip():
        return session, items, True
    known = {_identity(item) for item in items}
    _, more = _sort(_salvage(rest, 0))
    return session, [*items, *(item for item in more if _identity(item) not in known)], False


def _salvage(text: str, start: int) -> list[Any]:
    """Return every complete object in a text, outermost first."""
    found: list[Any] = []
    failures = 0
    at = text.find("{", start)
    while at >= 0 and failures < _MOST_FAILURES:
        try:
            value, end = _DECODER.raw_decode(text, at)
            found.append(value)
        except (ValueError, RecursionError):
            failures += 1
            end = at + 1
        at = text.find("{", end)
    return found


def _sort(values: list[Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Separate the head of the session from its items; parts of broken items are dropped."""
    session: dict[str, Any] = {}
    items: list[dict[str, Any]] = []
    for value in values:
        if not is_object(value):
            continue
        kind = value.get("type")
        if isinstance(kind, str) and kind in ITEM_TYPES:
            items.append(value)
        elif "type" not in value and isinstance(value.get("id"), str) and not session:
            session = value
    return session, items


def _identity(item: dict[str, Any]) -> str:
    return json.dumps(item, sort_keys=True)
