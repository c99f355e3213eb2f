"""Prepares the records of another store for a new thread.

A new thread numbers its records anew. Records that refer to others by number are changed to the
new numbers. Of several records with one id the last one is kept, which is the one that counts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from amux.rollout.control import HIDE, REGISTER, SNAPSHOT, event_of
from amux.rollout.records import NewRecord, PayloadText, Record, SessionMeta, as_mapping


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
        context = as_mapping(record.payload)
        return _with_some_paths(context, ("cwd",), cwd_map) if context else record.payload
    if record.type == "compacted":
        payload = dict(as_mapping(record.payload))
        if isinstance(payload.get("first_kept_seq"), int):
            payload["first_kept_seq"] = bisect_left(numbers, payload["first_kept_seq"]) + 2
            return payload
    found = event_of(record)
    if cwd_map and found is not None and (found[0], found[1].get("name")) == (REGISTER, SNAPSHOT):
        state = as_mapping(found[1].get("value"))
        return {**found[1], "value": _with_paths(state, cwd_map)} if state else found[1]
    if found is not None and found[0] == HIDE:
        payload = dict(found[1])
        if isinstance(payload.get("from_seq"), int):
            payload["from_seq"] = bisect_left(numbers, payload["from_seq"]) + 2
        if isinstance(payload.get("upto_seq"), int):
            payload["upto_seq"] = bisect_right(numbers, payload["upto_seq"]) + 1
        if payload != found[1]:
            return payload
    return PayloadText(record.text)


_WITH_PATHS: Final = ("attribution", "file_history", "worktree")
"""The subsystems whose states name files; those with texts for people and models stay."""

_FLAT: Final = ("cwd", "worktree_state", *_WITH_PATHS)
"""The fields of a snapshot of version 0 that name files."""


def _with_paths(snapshot: Mapping[str, Any], cwd_map: Mapping[str, str]) -> dict[str, Any]:
    """Return a snapshot of a session's state with the paths of this machine."""
    mapped = _with_some_paths(snapshot, _FLAT, cwd_map)
    for part, names in (("premises", ("cwd",)), ("subsystems", _WITH_PATHS)):
        if as_mapping(snapshot.get(part)):
            mapped[part] = _with_some_paths(snapshot[part], names, cwd_map)
    return mapped


def _with_some_paths(
    fields: Mapping[str, Any], names: Sequence[str], cwd_map: Mapping[str, str]
) -> dict[str, Any]:
    return {
        name: _mapped_inside(value, cwd_map) if name in names else value
        for name, value in fields.items()
    }


def _mapped_inside(value: object, cwd_map: Mapping[str, str]) -> Any:
    """Return a JSON value in which texts and keys that are paths are those of this machine."""
    if isinstance(value, str):
        return _mapped(value, cwd_map)
    if isinstance(value, list):
        return [_mapped_inside(each, cwd_map) for each in cast("Sequence[Any]", value)]
    fields = as_mapping(value)
    if not fields:
        return value
    return {_mapped(name, cwd_map): _mapped_inside(each, cwd_map) for name, each in fields.items()}


def _mapped(cwd: str, cwd_map: Mapping[str, str]) -> str:
    for old, new in cwd_map.items():
        if cwd == old or cwd.startswith(old.rstrip("/") + "/"):
            return new + cwd[len(old.rstrip("/")) :]
    return cwd
