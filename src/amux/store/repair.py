"""Which records of a damaged thread are kept, and how lost meta data are made anew."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from amux.errors import StoreError
from amux.rollout.ids import new_run_session_id
from amux.rollout.records import (
    SCHEMA_VERSION,
    Record,
    SessionMeta,
    encode_payload,
    meta_of,
    meta_payload,
    new_record_id,
)


def with_meta(records: Sequence[Record], thread_id: str, now: datetime) -> list[Record]:
    """Return the records with meta data of the thread first and increasing sequence numbers."""
    meta = meta_of(records[0]) if records else None
    if meta is not None and meta.schema_version > SCHEMA_VERSION:
        raise StoreError(
            f"thread `{thread_id}` has version {meta.schema_version} of the format; "
            f"this version of amux repairs up to {SCHEMA_VERSION}",
            hint="update amux",
        )
    if meta is None:
        first = Record(
            seq=1,
            id=new_record_id(),
            type="session_meta",
            at=records[0].at if records else now,
            text=encode_payload(meta_payload(_lost_meta(records, thread_id, now))),
        )
        records = [first, *(each for each in records if each.type != "session_meta")]
    elif meta.thread_id != thread_id:
        text = encode_payload(meta_payload(msgspec.structs.replace(meta, thread_id=thread_id)))
        records = [msgspec.structs.replace(records[0], text=text), *records[1:]]
    return _numbered(records)


def _lost_meta(records: Sequence[Record], thread_id: str, now: datetime) -> SessionMeta:
    return SessionMeta(
        thread_id=thread_id,
        session_id=new_run_session_id(),
        created_at=records[0].at if records else now,
        source="repair",
    )


def _numbered(records: Sequence[Record]) -> list[Record]:
    """Return the records with their numbers; one that does not follow its predecessor is moved."""
    numbered: list[Record] = []
    last = 0
    for record in records:
        last = record.seq if record.seq > last else last + 1
        is_moved = record.seq != last
        numbered.append(msgspec.structs.replace(record, seq=last) if is_moved else record)
    return numbered
