"""Turns: one at a time per thread, held by a lease that a heartbeat renews."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from amux.errors import StoreError
from amux.rollout import control
from amux.rollout.log import Lease, ThreadLog
from amux.rollout.records import NewRecord, as_mapping

LEASE_SECONDS: Final = 30.0
"""The time after which the turn of a process that no longer renews it can be taken over."""

_TURN_KINDS: Final = (
    control.TURN_STARTED,
    control.TURN_ENDED,
    control.TURN_INTERRUPTED,
    control.INPUT,
    control.INPUT_TAKEN,
)


class TurnContext(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The environment of a turn. Fields that are None are those of the turn before."""

    cwd: str | None = None
    model: str | None = None
    model_provider: str | None = None
    approval_mode: str | None = None
    sandbox_policy: Any = None
    effort: str | None = None
    git_sha: str | None = None
    git_branch: str | None = None
    extra: dict[str, Any] = {}


class PendingInput(msgspec.Struct, frozen=True, kw_only=True):
    """A message that arrived while a turn was running."""

    id: str
    message: Mapping[str, Any]


class Turn:
    """A running turn. Use it as a context manager: an exception marks it as interrupted."""

    def __init__(
        self,
        log: ThreadLog,
        lease: Lease,
        turn_id: str,
        pending: Sequence[PendingInput],
        *,
        seconds: float = LEASE_SECONDS,
    ) -> None:
        self.turn_id = turn_id
        self.pending = tuple(pending)
        self._log = log
        self._lease = lease
        self._seconds = seconds
        self._ended = threading.Event()
        self._lost = False
        self._heartbeat = threading.Thread(target=self._renew, name=f"turn-{turn_id}", daemon=True)
        self._heartbeat.start()

    def append(self, record: NewRecord) -> str:
        """Append a record of the turn; raise `StoreError` if the turn was interrupted."""
        self._check()
        return self._log.append(self._lease.thread_id, (record,)).ids[0]

    def message(self, role: str, content: Any, **fields: Any) -> str:
        """Append a message of the turn and return its id."""
        payload = {"type": "message", "role": role, "content": content, **fields}
        return self.append(NewRecord(payload=payload))

    @property
    def is_running(self) -> bool:
        """Whether this process still holds the turn."""
        return not self._ended.is_set() and not self._lost

    def end(self, **fields: Any) -> None:
        """End the turn and force its records to the disk. Ending twice is harmless."""
        self._finish(control.TURN_ENDED, fields)

    def interrupt(self, reason: str = "interrupted") -> None:
        """End the turn as interrupted."""
        self._finish(control.TURN_INTERRUPTED, {"reason": reason})

    def _finish(self, kind: str, fields: Mapping[str, Any]) -> None:
        if self._ended.is_set():
            return
        self._ended.set()
        self._heartbeat.join()
        thread_id = self._lease.thread_id
        if self._is_held():  # the end is recorded before another turn can begin
            self._log.append(thread_id, (control.event(kind, turn_id=self.turn_id, **fields),))
            self._log.release_lease(self._lease)
        self._log.sync(thread_id)

    def _is_held(self) -> bool:
        """Return whether no other turn has begun; a lease that only expired is renewed."""
        held = self._log.lease_of(self._lease.thread_id)
        if held is not None:
            return held.token == self._lease.token
        return self._log.renew_lease(self._lease, seconds=self._seconds) is not None

    def _check(self) -> None:
        if not self.is_running or not self._is_held():
            self._lost = True
            raise StoreError(
                f"the turn of thread `{self._lease.thread_id}` was interrupted",
                hint="begin another turn",
            )

    def _renew(self) -> None:
        while not self._ended.wait(self._seconds / 3):
            try:
                renewed = self._log.renew_lease(self._lease, seconds=self._seconds)
            except StoreError:
                continue  # tried again until the lease expires
            if renewed is None:
                self._lost = True
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.end()
        else:
            self.interrupt(kind.__name__)


def begin_turn(
    log: ThreadLog,
    thread_id: str,
    owner: str,
    *,
    context: TurnContext | None,
    new_id: Callable[[], str],
    seconds: float = LEASE_SECONDS,
) -> Turn:
    """Take the lease of a thread and record the beginning of a turn.

    A turn that a dead process left is marked as interrupted, and the input that arrived meanwhile
    is handed over.
    """
    lease = log.acquire_lease(thread_id, owner, seconds=seconds)
    try:
        turn_id = new_id()
        unfinished, pending = open_matters(log, thread_id)
        records = [
            control.event(control.TURN_INTERRUPTED, turn_id=each, reason="owner died")
            for each in unfinished
        ]
        if context is not None:
            payload = msgspec.to_builtins(context)
            records.append(NewRecord(type="turn_context", payload=payload))
        records.append(control.event(control.TURN_STARTED, turn_id=turn_id, session_id=owner))
        if pending:
            taken = [each.id for each in pending]
            records.append(control.event(control.INPUT_TAKEN, ids=taken, turn_id=turn_id))
        log.append(thread_id, records)
    except BaseException:
        log.release_lease(lease)
        raise
    return Turn(log, lease, turn_id, pending, seconds=seconds)


def open_matters(log: ThreadLog, thread_id: str) -> tuple[list[str], list[PendingInput]]:
    """Return the turns that have no end, and the input that no turn has taken, oldest first."""
    finished: set[str] = set()
    taken: set[str] = set()
    unfinished: list[str] = []
    pending: list[PendingInput] = []
    for record in log.read_back(thread_id, kinds=_TURN_KINDS):
        payload = as_mapping(record.payload)
        kind, turn_id = payload.get("type"), str(payload.get("turn_id"))
        if kind in {control.TURN_ENDED, control.TURN_INTERRUPTED}:
            finished.add(turn_id)
        elif kind == control.INPUT_TAKEN:
            taken.update(control.texts_in(payload, "ids"))
        elif kind == control.INPUT and record.id not in taken:
            message = as_mapping(payload.get("message"))
            pending.append(PendingInput(id=record.id, message=message))
        elif kind == control.TURN_STARTED:
            if turn_id in finished:
                break  # whatever is older was settled when this turn began
            unfinished.append(turn_id)
    pending.reverse()
    return unfinished, pending
