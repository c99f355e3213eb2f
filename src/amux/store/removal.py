"""Which records of a thread a vacuum removes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from amux.rollout import control
from amux.rollout.records import Record
from amux.rollout.view import HiddenRecords


def removable(newest_first: Iterable[Record], erase: Container[str]) -> set[int]:
    """Return the sequence numbers of the records that can be removed without changing a view.

    These are hidden items and projections that a search must not find either, records superseded
    by a later one with their id, older values of a register, and records that are to be erased,
    with corrections of them. History that a compaction or a clear left searchable stays. The meta
    data stays.
    """
    hidden, seen = HiddenRecords(), set[str]()
    registers: set[str] = set()
    gone: set[int] = set()
    for record in newest_first:
        if record.type == "session_meta":
            continue
        found = control.event_of(record)
        if found is not None:
            hidden.add(record, *found)
            is_hidden = found[0] == control.PROJECTION and hidden.hides_from_search(record)
            if is_hidden or _is_outdated(*found, registers, erase):
                gone.add(record.seq)
        elif record.id in seen or hidden.hides_from_search(record):
            gone.add(record.seq)
        if record.id in erase:
            gone.add(record.seq)
        seen.add(record.id)
    return gone


def _is_outdated(
    kind: str, payload: Mapping[str, Any], registers: set[str], erase: Container[str]
) -> bool:
    """Return whether a control record is an older register, or concerns an erased record."""
    if kind == control.REGISTER:
        name = str(payload.get("name"))
        is_older = name in registers
        registers.add(name)
        return is_older
    return str(payload.get("target", payload.get("of"))) in erase
