"""The state of an application, a user or a session of the Agent Development Kit, as a thread.

A change of a state is a record with the changed keys and the id of the event that changed them. The
state is what the changes add up to. After every 64 records or so a register holds the whole state
as of some record, so that a reader needs the end of the thread only. Registers are derived: they
may be missing or stand later than the changes they lack.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from amux.errors import AmuxError
from amux.integrations._common import RecentValues
from amux.rollout import control
from amux.rollout.log import Appended, ThreadLog
from amux.rollout.records import NewRecord, Record, as_mapping, decode_payload, encode_payload

STATE_FORMAT: Final = "adk-state"
"""The payload format of threads that hold a state and no conversation."""

STATE: Final = "state"
DELTA: Final = "state_delta"

_INTERVAL: Final = 64
_EVENT: Final = "response_item"


class _Timed(msgspec.Struct):
    timestamp: float = 0.0


_TIMED: Final = msgspec.json.Decoder(_Timed, strict=False)


class ThreadState(NamedTuple):
    """The end of a thread.

    `head` is its last record and `revision` its last event, 0 if there is none. `is_started` is
    false for the thread of a session whose creation was interrupted. `text` is the state as JSON.
    """

    head: int
    revision: int
    is_started: bool
    updated_at: float
    text: str

    def values(self) -> dict[str, Any]:
        """Return a copy of the state that the caller may change."""
        found: dict[str, Any] = decode_payload(self.text)
        return found


EMPTY: Final = ThreadState(head=0, revision=0, is_started=False, updated_at=0.0, text="{}")


class StateThreads:
    """Reads and extends the threads that hold states."""

    def __init__(self, log: ThreadLog) -> None:
        self._log = log
        self._recent: RecentValues[ThreadState] = RecentValues()

    def read(self, thread_id: str) -> ThreadState:
        """Return the state at the end of a thread."""
        return self.keep(thread_id, fold(self._log.read_back(thread_id)))

    def read_end(self, thread_id: str) -> ThreadState:
        """Return the end of a thread without its state, reading as little as possible."""
        return fold(self._log.read_back(thread_id), with_values=False)

    def read_at(self, thread_id: str, head: int) -> ThreadState:
        """Return the state of a thread whose head is known; it is read only if it changed."""
        known = self._recent.get(thread_id)
        return known if known is not None and known.head == head else self.read(thread_id)

    def keep(self, thread_id: str, state: ThreadState) -> ThreadState:
        """Remember the state at the end of a thread, so that `read_at` need not read it."""
        self._recent.put(thread_id, state)
        return state

    def checkpoint(self, thread_id: str, appended: Appended) -> None:
        """Append a register with the whole state if enough records were appended since the last.

        Nothing is lost if that fails: the next register comes later.
        """
        if appended.head // _INTERVAL > (appended.head - appended.stored) // _INTERVAL:
            with contextlib.suppress(AmuxError):
                self._log.append(thread_id, (as_register(self.read(thread_id)),))


def as_delta(changes: Mapping[str, Any], event_id: str | None) -> NewRecord:
    """Return a record that changes keys of a state."""
    return NewRecord(
        type="event_msg", payload={"type": DELTA, "event": event_id, "changes": dict(changes)}
    )


def as_register(state: ThreadState) -> NewRecord:
    """Return a register with a whole state."""
    return control.register(
        STATE,
        {
            "upto": state.head,
            "revision": state.revision,
            "time": state.updated_at,
            "values": state.values(),
        },
    )


def fold(newest_first: Iterable[Record], *, with_values: bool = True) -> ThreadState:
    """Return the state that the records add up to, reading back to what the last register covers.

    A register may stand after changes that it lacks: `upto` is the last record that it knows.
    Without values, the last event is enough.
    """
    head = upto = 0
    event: Record | None = None
    register: Mapping[str, Any] | None = None
    changes: dict[str, Any] = {}
    for record in newest_first:
        head = head or record.seq
        if (register is not None and record.seq <= upto) or (event and not with_values):
            break
        if record.type == _EVENT:
            event = event or record
            continue
        kind, payload = control.event_of(record) or ("", {})
        if kind == DELTA:
            changes = {**as_mapping(payload.get("changes")), **changes}
        elif kind == control.REGISTER and payload.get("name") == STATE and register is None:
            register = as_mapping(payload.get("value"))
            upto = int(register.get("upto", 0))
    known = register or {}
    return ThreadState(
        head=head,
        revision=int(known.get("revision", 0)) if event is None else event.seq,
        is_started=register is not None or event is not None,
        updated_at=float(known.get("time", 0.0)) if event is None else time_of(event),
        text=encode_payload({**as_mapping(known.get("values")), **changes}),
    )


def time_of(event: Record) -> float:
    """Return the timestamp of an event, to the last bit."""
    try:
        return _TIMED.decode(event.text).timestamp
    except (msgspec.DecodeError, UnicodeError):
        return float(as_mapping(event.payload).get("timestamp", 0.0))
