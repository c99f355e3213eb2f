"""`ItemThread`: the items of one branch of a session of the OpenAI Agents SDK, in one thread.

All methods block. An item is a record; popping, clearing and compacting are control records that
hide earlier ones, so that nothing is lost by mistake and the history can be searched. A change that
depends on what is stored names the head it has seen, and is repeated if another writer was faster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar

from amux.errors import SessionNotFoundError, ValidationError
from amux.integrations._common import find_or_create, retrying
from amux.rollout import control
from amux.rollout.log import check_key
from amux.rollout.records import NewRecord, Record
from amux.rollout.view import visible
from amux.store.session_store import SessionStore

T = TypeVar("T")

NAMESPACE: Final = "openai-agents"
FORMAT: Final = "openai-items"

_ITEMS: Final = frozenset({"response_item"})


class Tail(NamedTuple):
    """The latest items of a thread, oldest first, and the number of the last record of all."""

    head: int
    records: list[Record]


class ItemThread:
    """The thread with a key; it is created by the first append."""

    def __init__(
        self, store: SessionStore, key: tuple[str, ...], meta: Mapping[str, Any] | None = None
    ) -> None:
        self.store = store
        self.key = key
        self._log = store.log
        self._meta = dict(meta or {})
        self._thread_id: str | None = None

    @property
    def thread_id(self) -> str | None:
        """The id of the thread; None if nothing was stored yet."""
        if self._thread_id is None:
            self._thread_id = self._log.find(NAMESPACE, self.key)
        return self._thread_id

    def records(self, limit: int | None = None) -> list[Record]:
        """Return the visible items, oldest first; with a limit the latest ones."""
        return self._attempt(lambda thread_id: self._tail(thread_id, limit).records, [])

    def events(self, kind: str) -> list[Record]:
        """Return the control records of a kind, oldest first, hidden ones included."""
        return self._attempt(
            lambda thread_id: list(self._log.read_back(thread_id, kinds=(kind,)))[::-1], []
        )

    def append(self, items: Sequence[Any]) -> None:
        """Append items as one batch; raise `TypeError`, and store none, if one is not JSON."""
        records = [NewRecord(payload=item) for item in items]

        def attempt() -> None:
            thread_id = self._thread_id = self.thread_id or find_or_create(
                self.store, NAMESPACE, self.key, payload_format=FORMAT, **self._meta
            )
            self._work_on(thread_id, lambda: self._append(thread_id, records))

        retrying(attempt)

    def add_events(self, records: Sequence[NewRecord]) -> None:
        """Append control records; those whose id the thread has are skipped."""
        self._attempt(lambda thread_id: self._append(thread_id, records), None)

    def pop(self) -> Any:
        """Hide the newest item and return it; None if there is none."""

        def attempt(thread_id: str) -> Any:
            head, found = self._tail(thread_id, 1)
            if not found:
                return None
            self._append(thread_id, [control.hide_from(found[0], reason="pop")], expect=head)
            return found[0].payload

        return self._attempt(attempt, None)

    def clear(self, *, erase: bool) -> None:
        """Hide all items; with `erase` remove them for good."""

        def attempt(thread_id: str) -> None:
            hidden = control.hide_all(searchable=not erase, reason="clear")
            self._append(thread_id, [hidden])
            if erase:
                self._log.vacuum(thread_id)

        self._attempt(attempt, None)

    def tail(self, limit: int) -> tuple[list[Record], bool]:
        """Return the latest items, and whether these are all."""
        found = self.records(limit + 1)
        return (found[-limit:] if limit > 0 else []), len(found) <= limit

    def replace_tail(
        self,
        expected: Sequence[Record],
        output: Sequence[Any],
        expires: Callable[[Any], bool] | None,
    ) -> bool:
        """Replace the latest items in one batch; return False if they are no longer the expected.

        The first items of the thread are hidden as well, as far as `expires` accepts them.
        """

        def attempt(thread_id: str) -> bool:
            head, found = self._tail(thread_id, len(expected) if expires is None else None)
            kept = len(found) - len(expected)
            if kept < 0 or _versions(found[kept:]) != _versions(expected):
                return False
            expired = 0
            while expires is not None and expired < kept and expires(found[expired].payload):
                expired += 1
            batch: list[NewRecord] = []
            if expired:
                last = found[expired - 1]
                batch.append(control.hide_up_to(last, searchable=True, reason="compaction"))
            batch.append(control.hide_from(expected[0], searchable=True, reason="compaction"))
            batch.append(_compacted(len(expected) + expired, len(output)))
            batch += [NewRecord(payload=item) for item in output]
            self._append(thread_id, batch, expect=head)
            return True

        return bool(expected) and self._attempt(attempt, missing=False)

    def _tail(self, thread_id: str, limit: int | None) -> Tail:
        newest_first = self._log.read_back(thread_id)
        last = next(newest_first, None)
        if last is None:
            return Tail(0, [])
        return Tail(last.seq, visible(chain((last,), newest_first), limit=limit, types=_ITEMS))

    def _append(
        self, thread_id: str, records: Sequence[NewRecord], *, expect: int | None = None
    ) -> None:
        try:
            self._log.append(thread_id, records, expect=expect)
        except ValidationError as error:  # the SDK's own sessions raise TypeError
            raise TypeError(error.message) from error

    def _attempt(self, work: Callable[[str], T], missing: T) -> T:
        """Return the result of work on the thread; `missing` if there is no thread."""

        def attempt() -> T:
            thread_id = self.thread_id
            if thread_id is None:
                return missing
            return self._work_on(thread_id, lambda: work(thread_id))

        return retrying(attempt)

    def _work_on(self, thread_id: str, work: Callable[[], T]) -> T:
        """Return the result of work on the thread, which is looked up again if it was deleted."""
        try:
            return work()
        except SessionNotFoundError:
            if self._thread_id == thread_id:
                self._thread_id = None
            raise


def key_of(session_id: str, *branch: str) -> tuple[str, ...]:
    """Return the key of a session, or of a branch of it.

    Session ids are free text. One that no key can hold, because it is too long, has a NUL or is not
    valid Unicode, is represented by its digest.

    Raises:
        ValidationError: The session id is not a text, or no key can hold the name of the branch.
    """
    if not isinstance(session_id, str):
        raise ValidationError(
            f"a session id is a text, not an object of type `{type(session_id).__name__}`",
            fields=("session_id",),
        )
    try:
        check_key(NAMESPACE, (session_id, *branch))
    except ValidationError:
        data = session_id.encode("utf-8", "surrogatepass")
        return "", sha256(data).hexdigest(), *branch
    return session_id, *branch


def _versions(records: Sequence[Record]) -> list[tuple[int, str]]:
    return [(record.seq, record.text) for record in records]


def _compacted(replaced: int, output: int) -> NewRecord:
    """Return the record that marks a compaction; all older items that are visible are kept."""
    summary = f"{replaced} items were replaced by {output}"
    return NewRecord(type="compacted", payload={"summary": summary, "first_kept_seq": 1})
