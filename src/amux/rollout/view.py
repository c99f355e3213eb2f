"""Views of a thread: the visible records, the tail, the conversation, a path of the tree.

All views read records from the newest to the oldest and stop as soon as nothing older can be
visible. A control record stands after its targets, so each is known before its targets are read.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from amux.rollout.control import CORRECTION, HEAD, HIDE, UNHIDE, event_of, texts_in
from amux.rollout.records import Record, as_mapping, encode_payload

ITEMS: Final = frozenset({"response_item", "compacted"})
"""The types of records that a conversation consists of."""


class HiddenRecords:
    """Decides which records are hidden. Control records are added newest first."""

    def __init__(self) -> None:
        self._undone: set[str] = set()
        self._ids: dict[str, bool] = {}  # hidden id: whether a search still finds it
        self._ranges: list[tuple[int, int, bool]] = []  # first and last sequence number, likewise
        self.floor = 0  # every record up to this number is hidden

    def add(self, record: Record, kind: str, payload: Mapping[str, Any]) -> None:
        """Take a `hide` or `unhide` record into account; other control records are ignored."""
        if kind == UNHIDE:
            self._undone.add(str(payload.get("hide")))
        elif kind == HIDE and record.id not in self._undone:
            searchable = payload.get("searchable") is True
            for hidden in texts_in(payload, "ids"):
                self._ids[hidden] = self._ids.get(hidden, True) and searchable
            first, last = _range_of(payload, record.seq)
            if last:
                self._ranges.append((first, last, searchable))
                if first <= 1:
                    self.floor = max(self.floor, last)

    def hides(self, record: Record) -> bool:
        """Return whether a record is hidden."""
        if record.id in self._ids:
            return True
        for first, last, _ in self._ranges:  # noqa: SIM110 - `any` is slow for an empty list
            if first <= record.seq <= last:
                return True
        return False

    def hides_from_search(self, record: Record) -> bool:
        """Return whether a record is hidden so that a search does not find it either."""
        return self._ids.get(record.id) is False or any(
            first <= record.seq <= last and not searchable
            for first, last, searchable in self._ranges
        )


def _range_of(payload: Mapping[str, Any], own: int) -> tuple[int, int]:
    """Return the first and last hidden sequence number; (0, 0) if only ids are hidden."""
    if payload.get("all") is True:
        return 1, own - 1
    first, last = payload.get("from_seq"), payload.get("upto_seq")
    if isinstance(first, int):
        return first, own - 1
    if isinstance(last, int):
        return 1, min(last, own - 1)
    return 0, 0


def visible(
    newest_first: Iterable[Record],
    *,
    limit: int | None = None,
    types: Container[str] = ITEMS,
) -> list[Record]:
    """Return the visible records of some types, oldest first; with a limit the latest ones.

    Corrections are applied. Of several records with one id the last counts.
    """
    if limit is not None and limit <= 0:
        return []
    found: list[Record] = []
    for record in _visible(newest_first, types):
        found.append(record)
        if len(found) == limit:
            break
    found.reverse()
    return found


def searchable(
    newest_first: Iterable[Record], *, include_inactive: bool = False
) -> Iterator[Record]:
    """Yield the records that a search finds, newest first, with corrections applied.

    History that was cleared or compacted is found. With `include_inactive` records that were
    rewound or popped are found as well.
    """
    hidden, seen = HiddenRecords(), set[str]()
    corrections: dict[str, dict[str, Any]] = {}
    for record in newest_first:
        found = event_of(record)
        if found is not None:
            hidden.add(record, *found)
            _add_correction(*found, corrections)
        if record.id in seen:
            continue
        seen.add(record.id)
        if not include_inactive and hidden.hides_from_search(record):
            continue
        fields = corrections.pop(record.id, None)
        yield record if fields is None else corrected(record, fields)


def _visible(
    newest_first: Iterable[Record], types: Container[str], *, follow_head: bool = False
) -> Iterator[Record]:
    """Yield visible records, newest first; with `follow_head` only those on the path to the head.

    Below a `head` record, only the ancestors of what follows it are on the path.
    """
    hidden, seen = HiddenRecords(), set[str]()
    corrections: dict[str, dict[str, Any]] = {}
    below_head, parent = False, None
    for record in newest_first:
        if record.seq <= hidden.floor:
            return
        found = event_of(record)
        if found is not None:
            hidden.add(record, *found)
            _add_correction(*found, corrections)
            target = _head_target(*found) if follow_head and not below_head else None
            if target is not None:
                below_head, parent = True, parent if seen else target
        if record.type not in types or record.id in seen or (below_head and record.id != parent):
            continue
        seen.add(record.id)
        parent = record.parent_id
        if not hidden.hides(record):
            fields = corrections.pop(record.id, None)
            yield record if fields is None else corrected(record, fields)


def _head_target(kind: str, payload: Mapping[str, Any]) -> str | None:
    target = payload.get("id") if kind == HEAD else None
    return target if isinstance(target, str) else None


def _add_correction(
    kind: str, payload: Mapping[str, Any], corrections: dict[str, dict[str, Any]]
) -> None:
    if kind == CORRECTION:
        target, fields = str(payload.get("target")), as_mapping(payload.get("fields"))
        corrections[target] = {**fields, **corrections.get(target, {})}  # a later one is known


def corrected(record: Record, fields: dict[str, Any]) -> Record:
    """Return a record with some fields of its payload replaced."""
    payload = {**as_mapping(record.payload), **fields}
    return msgspec.structs.replace(record, text=encode_payload(payload))


def conversation(newest_first: Iterable[Record]) -> list[Record]:
    """Return the records that a model is given, oldest first.

    After a compaction these are the `compacted` record, the records it kept and those that follow.
    The first kept record is named by its number, so that the others stay if it is hidden or
    replaced; it may be one that did not exist yet when the summary was begun. If only its id is
    known and it is missing, only those that follow are returned. If a
    control record moved the head, the records are those of the path to it.
    """
    later: list[Record] = []
    records = _visible(newest_first, ITEMS, follow_head=True)
    for record in records:
        if record.type == "compacted":
            later += [*_kept_by(record, records), record]
            break
        later.append(record)
    later.reverse()
    return later


def _kept_by(summary: Record, older: Iterator[Record]) -> list[Record]:
    """Return the records that a compaction kept, newest first."""
    payload = as_mapping(summary.payload)
    first_id, first_seq = payload.get("first_kept_id"), payload.get("first_kept_seq")
    kept: list[Record] = []
    is_named = isinstance(first_id, str) or isinstance(first_seq, int)
    for record in older if is_named else ():
        if isinstance(first_seq, int) and record.seq < first_seq:
            return kept
        if record.type != "compacted":
            kept.append(record)
            if record.id == first_id:
                return kept
    return kept if isinstance(first_seq, int) else []


def path(newest_first: Iterable[Record], head: str, *, limit: int | None = None) -> list[Record]:
    """Return the records from a root to the head, oldest first; with a limit the latest ones."""
    found: list[Record] = []
    wanted: str | None = head
    seen: set[str] = set()
    for record in newest_first:
        if record.id == wanted and record.id not in seen:
            seen.add(record.id)
            found.append(record)
            wanted = record.parent_id
            if wanted is None or len(found) == limit:
                break
    found.reverse()
    return found
