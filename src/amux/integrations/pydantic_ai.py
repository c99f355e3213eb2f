"""`AmuxConversationStore`: Pydantic AI keeps its conversations in an amux store.

    from pydantic_ai.conversation import Conversation
    from amux.integrations.pydantic_ai import AmuxConversationStore

    store = AmuxConversationStore("~/.myagent")
    result = await agent.run("Hello", conversation=Conversation(conversation_id="42"))
    await store.save(result)

A conversation is a thread with its id as the key; an entry is a record with the id and the parent
of the entry, whose payload is the message. The `ConversationRecord` is a register in the same batch
as the entries, so that neither is ever seen without the other.

A fork has copies of the entries it shares, with equal ids: deleting a conversation removes all it
holds and harms no fork. An entry id is looked up in the index of the store; the conversations that
were used last are tried first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

try:
    from pydantic import TypeAdapter
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )
    from pydantic_ai.messages import ModelMessagesTypeAdapter
except ImportError as error:
    from amux.integrations._extras import missing_extra

    raise missing_extra(error, "Pydantic AI", "pydantic-ai") from error

from amux.errors import SessionNotFoundError
from amux.integrations._common import (
    RecentValues,
    StoreAddress,
    new_meta,
    open_store,
    retrying,
)
from amux.rollout import control
from amux.rollout.log import ThreadLog
from amux.rollout.records import NewRecord, PayloadText, Record, as_mapping, decode_payload
from amux.rollout.threads import ThreadFilter
from amux.rollout.view import path
from amux.workers import run_in_worker

NAMESPACE: Final = "pydantic-ai"
FORMAT: Final = "pydantic-ai"

_REGISTER: Final = "conversation"
_RECORD: Final = TypeAdapter(ConversationRecord)


class _Stored(NamedTuple):
    """A conversation as it is stored. `record` is None once it is being deleted."""

    thread_id: str
    head: int
    record: ConversationRecord | None


class _Copies(NamedTuple):
    """Entries that a conversation shares with others, as records, and where the last came from."""

    records: list[NewRecord]
    thread_id: str | None = None


class AmuxConversationStore(ConversationStore):
    """A conversation store of Pydantic AI on a directory, a database or an open store.

    Calls run in worker threads, under asyncio and under trio. `delete` removes the conversation
    with its messages; forks of it have their own copies.
    """

    def __init__(self, store: StoreAddress) -> None:
        self.store = open_store(store)
        self._threads = ConversationThreads(self.store.log)

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation; None if the store does not have it."""
        return await run_in_worker(self._threads.record, conversation_id)

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Return the records, or those of a scope, the last updated first."""
        return await run_in_worker(self._threads.records, scope, limit)

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and its new entries in one batch.

        Raises:
            ConversationConflict: Another revision or scope is stored, or the head is an unknown
                entry.
        """
        await run_in_worker(self._threads.write, record, new_entries, expected_revision)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation and its entries; conversations that share them keep theirs.

        Raises:
            ConversationConflict: Another revision is stored, or none.
        """
        await run_in_worker(self._threads.delete, conversation_id, expected_revision)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry; raise `LookupError` if no conversation has it."""
        return (await run_in_worker(self._threads.history, entry_id, 1))[0]

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """Return the entries up to `head_id`, oldest first, or only the last `limit` of them."""
        if head_id is None or limit == 0:
            return []
        return await run_in_worker(self._threads.history, head_id, limit)


class ConversationThreads:
    """Conversations as threads. All methods block."""

    def __init__(self, log: ThreadLog) -> None:
        self._log = log
        self._listed: RecentValues[tuple[int, str]] = RecentValues()  # head and register by thread
        self._holders: RecentValues[str] = RecentValues()  # a thread that has an entry, by entry

    def record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation; None if there is none."""
        stored = self._find(conversation_id)
        return None if stored is None else stored.record

    def _find(self, conversation_id: str) -> _Stored | None:
        """Return a conversation as it is stored; None if there is none."""
        thread_id = self._log.find(NAMESPACE, (conversation_id,))
        if thread_id is None:
            return None
        with contextlib.suppress(SessionNotFoundError):  # deleted meanwhile
            found = self._last_register(thread_id)
            if found is not None:
                return _Stored(thread_id, found[0], self._decoded(thread_id, found[1]))
        return None

    def _last_register(self, thread_id: str) -> tuple[int, str] | None:
        """Return the head of a thread and its register as text; None if it has no register."""
        head = 0
        for record in self._log.read_back(thread_id):
            head = head or record.seq
            kind, payload = control.event_of(record) or ("", {})
            if kind == control.REGISTER and payload.get("name") == _REGISTER:
                return head, record.text
        return None

    def _decoded(self, thread_id: str, text: str) -> ConversationRecord | None:
        """Return the record in a register, and remember where its entries are."""
        value = as_mapping(decode_payload(text)).get("value")
        if value is None:
            return None
        record = _RECORD.validate_python(value)
        for entry_id in (record.head_id, *record.branches):
            if entry_id is not None:
                self._holders.put(entry_id, thread_id)
        return record

    def records(self, scope: str | None, limit: int | None) -> list[ConversationRecord]:
        """Return the records of a scope, or all, the last updated first."""
        found: list[ConversationRecord] = []
        user_id = scope if scope is None or scope.isprintable() else None  # an index may change it
        selection = ThreadFilter(namespace=NAMESPACE, user_id=user_id, archived=None)
        for thread in reversed(self._log.threads(selection)):
            known = self._listed.get(thread.thread_id)
            if known is None or known[0] != thread.head:
                with contextlib.suppress(SessionNotFoundError):
                    known = self._last_register(thread.thread_id)
            if known is not None:
                self._listed.put(thread.thread_id, known)
                record = self._decoded(thread.thread_id, known[1])
                if record is not None and scope in {None, record.scope}:
                    found.append(record)
        found.sort(key=lambda record: record.updated_at, reverse=True)
        return found[:limit]

    def write(
        self,
        record: ConversationRecord,
        new_entries: Sequence[ConversationEntry],
        expected_revision: str | None,
    ) -> None:
        """Store a record and its new entries, if the expected revision is stored."""
        entries = [_as_record(entry) for entry in new_entries]

        def attempt() -> None:
            stored = self._find(record.conversation_id)
            current = None if stored is None else stored.record
            revision = None if current is None else current.revision
            if revision != expected_revision or (current and current.scope != record.scope):
                raise ConversationConflict(record.conversation_id)
            if stored is not None and current is None:  # its deletion was interrupted
                self._log.delete(stored.thread_id)
                stored = None
            copies = self._copies(record, new_entries, None if stored is None else stored.thread_id)
            batch = [*copies.records, *_with_head(record, entries, current), _as_register(record)]
            if stored is None:
                self._create(record, batch, copies)
            else:
                self._log.append(stored.thread_id, batch, expect=stored.head)
                self._remember(record, stored.thread_id)

        retrying(attempt)

    def _create(
        self, record: ConversationRecord, batch: Sequence[NewRecord], copies: _Copies
    ) -> None:
        meta = new_meta(
            NAMESPACE,
            (record.conversation_id,),
            payload_format=FORMAT,
            user_id=record.scope,
            kind="session" if copies.thread_id is None else "fork",
            forked_from=copies.thread_id,
            fork_point=record.forked_at,
            copied=len(copies.records),
        )
        self._log.create(meta, batch)
        self._remember(record, meta.thread_id)

    def _remember(self, record: ConversationRecord, thread_id: str) -> None:
        if record.head_id is not None:
            self._holders.put(record.head_id, thread_id)

    def _copies(
        self,
        record: ConversationRecord,
        new_entries: Sequence[ConversationEntry],
        thread_id: str | None,
    ) -> _Copies:
        """Return the entries of other conversations that the record's history continues.

        Raises:
            ConversationConflict: No conversation has the head: the one it was in was deleted.
        """
        new = {entry.id for entry in new_entries}
        parents = [entry.parent_id for entry in new_entries]
        needed = {each for each in (record.head_id, *record.branches, *parents) if each} - new
        if needed and thread_id is not None:
            needed -= self._log.stored_ids(thread_id, needed)
        copied: dict[str, NewRecord] = {}
        source: str | None = None
        for entry_id in sorted(needed - {record.head_id}) + sorted(needed & {record.head_id}):
            try:
                holder, records = self._path(entry_id, None)
            except LookupError:
                if entry_id == record.head_id:
                    raise ConversationConflict(record.conversation_id) from None
                continue
            source = holder
            copied |= {each.id: _as_copy(each) for each in records if each.id not in copied}
        return _Copies(list(copied.values()), source)

    def delete(self, conversation_id: str, expected_revision: str) -> None:
        """Delete a conversation in two steps: after the first no other writer can save it."""

        def attempt() -> None:
            stored = self._find(conversation_id)
            if stored is None or stored.record is None:
                raise ConversationConflict(conversation_id)
            if stored.record.revision != expected_revision:
                raise ConversationConflict(conversation_id)
            deleted = control.register(_REGISTER, None)
            self._log.append(stored.thread_id, (deleted,), expect=stored.head)
            self._log.delete(stored.thread_id)

        retrying(attempt)

    def history(self, head_id: str, limit: int | None) -> list[ConversationEntry]:
        """Return the entries up to one, oldest first; with a limit the latest ones."""
        _, records = self._path(head_id, limit)
        text = ",".join(record.text for record in records)
        messages = ModelMessagesTypeAdapter.validate_json(f"[{text}]")
        return [
            ConversationEntry(id=record.id, parent_id=record.parent_id, message=message)
            for record, message in zip(records, messages, strict=True)
        ]

    def _path(self, head_id: str, limit: int | None) -> tuple[str, list[Record]]:
        """Return the records up to an entry, oldest first, and the thread they are in.

        Raises:
            LookupError: No conversation has the entry.
        """
        for thread_id in self._threads_with(head_id):
            with contextlib.suppress(SessionNotFoundError):  # deleted meanwhile
                found = path(self._log.read_back(thread_id), head_id, limit=limit)
                if found and (found[0].parent_id is None or len(found) == limit):
                    self._holders.put(head_id, thread_id)
                    return thread_id, found
        raise LookupError(f"no conversation has an entry `{head_id}`")

    def _threads_with(self, entry_id: str) -> Iterator[str]:
        """Yield the threads that may hold an entry, the one that held it last first."""
        known = self._holders.get(entry_id)
        if known is not None:
            yield known
        for thread_id, _ in self._log.locate(entry_id):
            thread = self._log.get(thread_id)
            if thread is not None and thread.namespace == NAMESPACE and thread_id != known:
                yield thread_id


def _as_record(entry: ConversationEntry) -> NewRecord:
    text = ModelMessagesTypeAdapter.dump_json([entry.message])[1:-1].decode()
    at: Any = getattr(entry.message, "timestamp", None)
    return NewRecord(
        payload=PayloadText(text),
        id=entry.id,
        parent_id=entry.parent_id,
        at=at if isinstance(at, datetime) else None,
    )


def _as_copy(record: Record) -> NewRecord:
    return NewRecord(
        payload=PayloadText(record.text),
        id=record.id,
        parent_id=record.parent_id,
        at=record.at,
    )


def _as_register(record: ConversationRecord) -> NewRecord:
    return control.register(_REGISTER, _RECORD.dump_python(record, mode="json"))


def _with_head(
    record: ConversationRecord, entries: Sequence[NewRecord], current: ConversationRecord | None
) -> list[NewRecord]:
    """Return the new entries, after a record that moves the head if they do not follow it.

    A head that is no entry leaves the conversation empty.
    """
    start = entries[0].parent_id if entries else record.head_id
    if current is None or start == current.head_id:
        return list(entries)
    return [control.event(control.HEAD, id=start or ""), *entries]
