"""Control records: `event_msg` payloads that change how a thread is read.

Nothing in a thread is changed in place. A control record hides earlier records, shows hidden ones
again, corrects a record, moves the head, sets a register, a title or tags, or marks the course of a
turn. The targets of `hide` are explicit, with sequence numbers, so that a reader that goes from the
newest record to the oldest needs no second pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from amux.rollout.records import NewRecord, Record, as_mapping

HIDE: Final = "hide"
UNHIDE: Final = "unhide"
CORRECTION: Final = "correction"
HEAD: Final = "head"
REGISTER: Final = "register"
TITLE: Final = "title"
TAGS: Final = "tags"
INPUT: Final = "input"
INPUT_TAKEN: Final = "input_taken"
TURN_STARTED: Final = "turn_started"
TURN_ENDED: Final = "turn_ended"
TURN_INTERRUPTED: Final = "turn_interrupted"
SESSION_RESUMED: Final = "session_resumed"
SESSION_ENDED: Final = "session_ended"
TOUCH: Final = "touch"
USAGE: Final = "usage"
PROJECTION: Final = "projection"

SNAPSHOT: Final = "amux.snapshot"
"""The register that holds the state of a session beside its conversation."""


def event(kind: str, /, **fields: Any) -> NewRecord:
    """Return a control record of a kind; fields that are None are left out."""
    present = {name: value for name, value in fields.items() if value is not None}
    return NewRecord(type="event_msg", payload={"type": kind, **present})


def event_of(record: Record) -> tuple[str, Mapping[str, Any]] | None:
    """Return the kind and the payload of a control record; None for other records."""
    if record.type != "event_msg":
        return None
    payload = as_mapping(record.payload)
    kind = payload.get("type")
    return (kind, payload) if isinstance(kind, str) else None


def kind_of(record: Record) -> str:
    """Return the kind of a control record, and the type of any other record."""
    found = event_of(record)
    return record.type if found is None else found[0]


def texts_in(payload: Mapping[str, Any], field: str) -> list[str]:
    """Return the texts of a list in a payload; anything else in its place is no text."""
    found = payload.get(field)
    items = cast("list[object]", found) if isinstance(found, list) else []
    return [each for each in items if isinstance(each, str)]


def hide_ids(ids: Sequence[str], *, searchable: bool = False, reason: str = "") -> NewRecord:
    """Return a record that hides single records."""
    return event(HIDE, ids=list(ids), **_hide_fields(searchable=searchable, reason=reason))


def hide_from(record: Record, *, searchable: bool = False, reason: str = "") -> NewRecord:
    """Return a record that hides a record and everything between it and the new record."""
    fields = _hide_fields(searchable=searchable, reason=reason)
    return event(HIDE, from_id=record.id, from_seq=record.seq, **fields)


def hide_up_to(record: Record, *, searchable: bool = False, reason: str = "") -> NewRecord:
    """Return a record that hides a record and everything before it."""
    fields = _hide_fields(searchable=searchable, reason=reason)
    return event(HIDE, upto_id=record.id, upto_seq=record.seq, **fields)


def hide_all(*, searchable: bool = False, reason: str = "") -> NewRecord:
    """Return a record that hides everything before it."""
    return event(HIDE, all=True, **_hide_fields(searchable=searchable, reason=reason))


def _hide_fields(*, searchable: bool, reason: str) -> dict[str, Any]:
    return {"searchable": searchable or None, "reason": reason or None}


def unhide(hide_id: str) -> NewRecord:
    """Return a record that undoes a `hide` record."""
    return event(UNHIDE, hide=hide_id)


def correction(target: str, fields: Mapping[str, Any]) -> NewRecord:
    """Return a record whose fields replace those of the payload of another record."""
    return NewRecord(
        type="event_msg",
        payload={"type": CORRECTION, "target": target, "fields": dict(fields)},
    )


def register(name: str, value: Any) -> NewRecord:
    """Return a record that sets a register of the thread; the last one of a name counts."""
    return NewRecord(type="event_msg", payload={"type": REGISTER, "name": name, "value": value})


def projection(of: str, message: Mapping[str, Any]) -> NewRecord:
    """Return a readable message derived from an opaque record; it is never replayed."""
    return NewRecord(type="event_msg", payload={"type": PROJECTION, "of": of, "message": message})
