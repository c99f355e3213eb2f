"""The entries of an entry log, format version 1: how they are written and how a line is parsed.

One JSON object per line:

    session     the header, always the first line: id, version, time, working directory
    message     one message of a user, an assistant or a tool
    compaction  a summary that replaces everything before `first_kept_entry_id`
    branch      the origin of a fork, after its header

Fields are written in the order of the format's documentation, without white space. Fields that the
format does not know are kept, after the known ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypedDict, cast

import msgspec

from amux.errors import ValidationError
from amux.model.json_lines import Buffer, decode_line
from amux.model.problems import Problem

FORMAT_VERSION: Final = 1
ENTRY_TYPES: Final = ("session", "message", "compaction", "branch")
ROLES: Final = ("user", "assistant", "tool_result")

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])

_MESSAGE_FIELDS: Final = {
    "user": ("role", "content", "timestamp"),
    "assistant": (
        *("role", "content", "model", "provider", "usage", "stop_reason", "error_message"),
        "timestamp",
    ),
    "tool_result": (
        *("role", "tool_call_id", "tool_name", "content", "details", "is_error", "timestamp"),
    ),
}
_USAGE_FIELDS: Final = ("input", "output", "cache_read", "cache_write", "total_tokens", "cost")
_BLOCK_FIELDS: Final = (
    *("type", "text", "thinking", "data", "mime_type", "id", "name", "arguments"),
)


class Header(TypedDict):
    """The first line of a log."""

    type: Literal["session"]
    id: str
    version: int
    timestamp: str
    cwd: str


class MessageEntry(TypedDict):
    """A message, with the id of the entry before it."""

    type: Literal["message"]
    id: str
    parent_id: str
    timestamp: str
    role: str
    message: dict[str, Any]


class CompactionEntry(TypedDict):
    """A summary of everything before the first kept entry."""

    type: Literal["compaction"]
    id: str
    parent_id: str
    timestamp: str
    summary: str
    first_kept_entry_id: str
    tokens_before: int


class BranchEntry(TypedDict, total=False):
    """The origin of a fork. It has no parent in its own file."""

    type: Literal["branch"]
    id: str
    timestamp: str
    parent_session_path: str
    fork_entry_id: str
    branch_summary: str


def new_header(id: str, cwd: str, *, at: datetime) -> Header:
    """Return the header of a new log."""
    return {
        "type": "session",
        "id": id,
        "version": FORMAT_VERSION,
        "timestamp": iso_time(at),
        "cwd": cwd,
    }


def new_message(
    id: str, parent_id: str, message: Mapping[str, Any], *, at: datetime
) -> MessageEntry:
    """Return the entry of a message; see `checked_message`."""
    fields = checked_message(message, at=at)
    return {
        "type": "message",
        "id": id,
        "parent_id": parent_id,
        "timestamp": iso_time(at),
        "role": fields["role"],
        "message": fields,
    }


def new_compaction(
    id: str,
    parent_id: str,
    summary: str,
    *,
    first_kept_entry_id: str,
    tokens_before: int,
    at: datetime,
) -> CompactionEntry:
    """Return the entry of a compaction."""
    return {
        "type": "compaction",
        "id": id,
        "parent_id": parent_id,
        "timestamp": iso_time(at),
        "summary": summary,
        "first_kept_entry_id": first_kept_entry_id,
        "tokens_before": tokens_before,
    }


def new_branch(
    id: str, *, parent_session_path: str, fork_entry_id: str, branch_summary: str, at: datetime
) -> BranchEntry:
    """Return the entry that begins a fork; an empty summary is left out."""
    entry: BranchEntry = {
        "type": "branch",
        "id": id,
        "timestamp": iso_time(at),
        "parent_session_path": parent_session_path,
        "fork_entry_id": fork_entry_id,
    }
    if branch_summary:
        entry["branch_summary"] = branch_summary
    return entry


def iso_time(at: datetime) -> str:
    """Return a moment as the format writes it: UTC, to the second."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def unix_millis(at: datetime) -> int:
    """Return a moment as the messages of the format write it: milliseconds since 1970."""
    return (at - _EPOCH) // _MILLISECOND


def checked_message(message: Mapping[str, Any], *, at: datetime) -> dict[str, Any]:
    """Return a message with its fields in the order of the format.

    A text as `content` becomes one text block, and a missing `timestamp` is the time of the entry.

    Raises:
        ValidationError: The role is unknown, the content is neither a text nor a list of blocks, or
            a tool result does not name its call.
    """
    role = message.get("role")
    if role not in ROLES:
        raise ValidationError(
            f"a message of an entry log cannot have the role `{role}`",
            fields=("role",),
            hint=f"use one of {', '.join(f'`{each}`' for each in ROLES)}",
        )
    if role == "tool_result" and not message.get("tool_call_id"):
        raise ValidationError(
            "a tool result of an entry log must name its call",
            fields=("tool_call_id",),
            hint="set `tool_call_id` to the id of the `tool_call` block it answers",
        )
    fields: dict[str, Any] = {"timestamp": unix_millis(at), **message}
    fields["content"] = _checked_content(message.get("content"))
    usage = fields.get("usage")
    if isinstance(usage, Mapping):
        fields["usage"] = _ordered(cast("Mapping[str, Any]", usage), _USAGE_FIELDS)
    return _ordered(fields, _MESSAGE_FIELDS[role])


def _checked_content(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    blocks = list(cast("Sequence[object]", content)) if isinstance(content, list | tuple) else None
    if blocks is None or not all(_is_block(block) for block in blocks):
        raise ValidationError(
            "the content of a message is neither a text nor a list of blocks",
            fields=("content",),
            hint='give a text, or a list such as `[{"type": "text", "text": "..."}]`',
        )
    return [_ordered(cast("Mapping[str, Any]", block), _BLOCK_FIELDS) for block in blocks]


def _is_block(block: object) -> bool:
    if not isinstance(block, Mapping):
        return False
    return isinstance(cast("Mapping[str, Any]", block).get("type"), str)


def _ordered(fields: Mapping[str, Any], order: Sequence[str]) -> dict[str, Any]:
    """Return the fields with the known ones first, in their order."""
    known = {name: fields[name] for name in order if name in fields}
    return known | dict(fields)


def encode_line(entry: Mapping[str, Any]) -> bytes:
    """Return an entry as one line with its line break. Lone surrogates become U+FFFD.

    Raises:
        ValidationError: A value cannot be written as JSON, for example NaN or an object.
    """
    try:
        text = json.dumps(
            entry, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_as_json
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise ValidationError(
            f"the entry cannot be written as JSON ({error})",
            fields=("message",),
            hint="use texts, finite numbers, booleans, None, lists and dictionaries only",
        ) from error
    return _LONE_SURROGATE.sub("\ufffd", text).encode() + b"\n"


def _as_json(value: object) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    raise TypeError(f"a value of type `{type(value).__name__}` has no JSON form")


def decode_object(
    line: Buffer, path: str, *, number: int, ended: bool
) -> tuple[dict[str, Any], bytes] | Problem | None:
    """Return the object in a line with the line itself, or a problem; None if it is blank."""
    found = decode_line(line, _OBJECT, path, number=number, ended=ended)
    return (found[1], bytes(found[2])) if isinstance(found, tuple) else found


def parse_line(line: bytes | str) -> tuple[str, dict[str, Any]]:
    """Return the type of a line and its object.

    The type is `session`, `message`, `compaction` or `branch`; other programs may write further
    ones. It is "" if the object has no type, and if the line is no object, which gives `{}`.
    """
    data = line.encode("utf-8", "replace") if isinstance(line, str) else line
    found = decode_object(data.strip(b"\r\n"), "", number=1, ended=True)
    fields = found[0] if isinstance(found, tuple) else dict[str, Any]()
    return entry_type(fields), fields


def entry_type(fields: Mapping[str, Any]) -> str:
    """Return the type of an entry; "" if it has none."""
    found = fields.get("type")
    return found if isinstance(found, str) else ""
