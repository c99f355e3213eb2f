"""Prepares the records of another store for a new thread.

A new thread numbers its records anew. Records that refer to others by number are changed to the
new numbers. Of several records with one id the last one is kept, which is the one that counts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from amux.rollout.control import HIDE, event_of
from amux.rollout.records import NewRecord, PayloadText, Record, SessionMeta


def prepare_records(
    meta: SessionMeta, records: Sequence[Record], cwd_map: Mapping[str, str]
) -> tuple[SessionMeta, list[NewRecord]]:
    """Return the meta data and the records, without the first one, of a thread to create."""
    last = {record.id: record.seq for record in records}
    kept = [record for record in records if last[record.id] == record.seq]
    numbers = [record.seq for record in kept]  # the new number of `numbers[n]` is n + 2
    changed = msgspec.structs.replace(
        meta,
        cwd=_mapped(meta.cwd, cwd_map),
        copied=bisect_right(numbers, meta.copied + 1) if meta.copied else 0,
    )
    return changed, [_new_record(record, numbers, cwd_map) for record in kept]


def _new_record(record: Record, numbers: Sequence[int], cwd_map: Mapping[str, str]) -> NewRecord:
    return NewRecord(
        type=record.type,  # type: ignore[arg-type]  # a type of the future is stored as it is
        id=record.id,
        parent_id=record.parent_id,
        at=record.at,
        payload=_payload(record, numbers, cwd_map),
        blobs=record.blobs,
    )


def _payload(record: Record, numbers: Sequence[int], cwd_map: Mapping[str, str]) -> Any:
    if record.type == "turn_context" and cwd_map:
        context = dict(record.payload)
        return {**context, "cwd": _mapped(str(context.get("cwd", "")), cwd_map)}
    found = event_of(record)
    if found is not None and found[0] == HIDE:
        payload = dict(found[1])
        if isinstance(payload.get("from_seq"), int):
            payload["from_seq"] = bisect_left(numbers, payload["from_seq"]) + 2
        if isinstance(payload.get("upto_seq"), int):
            payload["upto_seq"] = bisect_right(numbers, payload["upto_seq"]) + 1
        if payload != found[1]:
            return payload
    return PayloadText(record.text)


def _mapped(cwd: str, cwd_map: Mapping[str, str]) -> str:
    for old, new in cwd_map.items():
        if cwd == old or cwd.startswith(old.rstrip("/") + "/"):
            return new + cwd[len(old.rstrip("/")) :]
    return cwd
