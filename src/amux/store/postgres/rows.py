"""Converts between rows of PostgreSQL and the types of the log protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from amux.rollout.records import Record
from amux.rollout.threads import ThreadChanges, ThreadFilter, ThreadSummary

RECORD_COLUMNS: Final = ("seq", "id", "type", "at", "payload", "parent_id", "blobs")
SUMMARY_COLUMNS: Final = tuple(ThreadSummary.__struct_fields__)
INSERT_COLUMNS: Final = (
    "thread_id", "seq", "id", "type", "parent_id", "at", "payload", "blobs",
)  # fmt: skip
INSERT_VALUES: Final = (
    "%s::text", "%s::bigint", "%s::text", "%s::text", "%s::text", "%s::timestamptz", "%s::text",
    "%s::text[]",
)  # fmt: skip
"""The SQL of the values for `INSERT_COLUMNS`, with a placeholder for each."""

LAST_ACTIVE: Final = "coalesce(last_message_at, created_at)"

_EXACT: Final = (
    "archived", "namespace", "cwd", "model", "source", "agent", "user_id", "parent", "title",
    "kind",
)  # fmt: skip


def record_of(row: Sequence[Any]) -> Record:
    """Return the record of a row with `RECORD_COLUMNS`."""
    seq, record_id, kind, at, payload, parent_id, blobs = row
    return Record(
        seq=seq,
        id=record_id,
        type=kind,
        at=at,
        text=payload,
        parent_id=parent_id,
        blobs=tuple(blobs),
    )


def summary_of_row(row: Sequence[Any]) -> ThreadSummary:
    """Return the summary of a row with `SUMMARY_COLUMNS`."""
    fields = dict(zip(SUMMARY_COLUMNS, row, strict=True))
    fields["key"] = None if fields["key"] is None else split_key(fields["key"])
    fields["tags"] = tuple(fields["tags"])
    return ThreadSummary(**fields)


def join_key(key: tuple[str, ...]) -> str:
    """Return a key as text in which the parts of a prefix are a prefix."""
    return "".join(f"{len(part)}:{part}" for part in key)


def split_key(text: str) -> tuple[str, ...]:
    """Return the parts of a key."""
    parts: list[str] = []
    while text:
        length, _, rest = text.partition(":")
        parts.append(rest[: int(length)])
        text = rest[int(length) :]
    return tuple(parts)


def insert_values(thread_id: str, record: Record) -> tuple[Any, ...]:
    """Return the values of a record for `INSERT_COLUMNS`."""
    return (
        thread_id,
        record.seq,
        record.id,
        record.type,
        record.parent_id,
        record.at,
        record.text,
        list(record.blobs) or "{}",  # the text of an empty array costs less
    )


def assignments(changes: ThreadChanges) -> tuple[str, list[Any]]:
    """Return the SET clause that applies changes to a thread, and its values."""
    parts = ["head = %s", "updated_at = %s"]
    values: list[Any] = [changes.head, changes.updated_at]
    if changes.preview:
        parts.append("preview = CASE preview WHEN '' THEN %s ELSE preview END")
        values.append(changes.preview)
    for name, count in changes.added.items():
        parts.append(f"{name} = {name} + %s")
        values.append(count)
    for name, value in changes.fields.items():
        parts.append(f"{name} = %s")
        values.append([*value] if name == "tags" else value)
    return ", ".join(parts), values


def conditions_of(selection: ThreadFilter) -> tuple[str, list[Any]]:
    """Return the WHERE clause of a selection, and its values."""
    parts, values = ["true"], list[Any]()
    for name in _EXACT:
        wanted = getattr(selection, name)
        if wanted is not None:
            parts.append(f"{name} = %s")
            values.append(wanted)
    further = (
        (selection.since, f"{LAST_ACTIVE} >= %s", (selection.since,)),
        (selection.until, f"{LAST_ACTIVE} < %s", (selection.until,)),
        (selection.tag, "%s = ANY(tags)", (selection.tag,)),
        (selection.title_base, "starts_with(title, %s)", (selection.title_base,)),
        (selection.worktree, "starts_with(cwd || '/', %s)", (selection.worktree_prefix,)),
        (selection.related_to, "(parent = %s OR forked_from = %s)", (selection.related_to,) * 2),
    )
    for wanted, condition, given in further:
        if wanted is not None:
            parts.append(condition)
            values += given
    if selection.ended is not None:
        parts.append(f"ended_at IS {'NOT ' if selection.ended else ''}NULL")
    if selection.key_prefix is not None:
        parts.append("starts_with(key, %s)")
        values.append(join_key(selection.key_prefix))
    return " AND ".join(parts), values
