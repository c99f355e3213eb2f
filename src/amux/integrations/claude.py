"""`AmuxSessionStore`: the Claude Agent SDK keeps its sessions in an amux store.

    from claude_agent_sdk import ClaudeAgentOptions
    from amux.integrations.claude import AmuxSessionStore

    options = ClaudeAgentOptions(session_store=AmuxSessionStore("~/.myagent"))

A transcript is a thread with the key (project, session, subpath); an entry is a record whose
payload is the line as the SDK gave it. Entries with a `uuid` are stored once, however often they
arrive. The summary that the SDK folds is a register, written in the same batch as the entries it is
made from.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final, cast

try:
    from claude_agent_sdk import SessionStore as SdkSessionStore
    from claude_agent_sdk import fold_session_summary
    from claude_agent_sdk.types import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )
except ImportError as error:
    from amux.integrations._extras import missing_extra

    raise missing_extra(error, "the Claude Agent SDK", "claude") from error

from amux.errors import SessionNotFoundError
from amux.integrations._common import (
    StoreAddress,
    create,
    head_of,
    open_store,
    retrying,
    threads_below,
)
from amux.rollout import control
from amux.rollout.records import MAX_ID_LENGTH, NewRecord
from amux.rollout.threads import ThreadSummary
from amux.rollout.view import visible
from amux.workers import run_in_worker

NAMESPACE: Final = "claude-agent-sdk"
FORMAT: Final = "claude-jsonl"

_SUMMARY: Final = "summary"


class AmuxSessionStore(SdkSessionStore):
    """A session store of the Claude Agent SDK on a directory, a database or an open store.

    Calls run in worker threads, under asyncio and under trio.
    """

    def __init__(self, store: StoreAddress, **meta: Any) -> None:
        """Open a store; nothing is read or created before the first use.

        `meta` are fields of new threads, such as `user_id`.
        """
        self.store = open_store(store)
        self._log = self.store.log
        self._meta = meta

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Store entries in order; one with a known `uuid` is skipped."""
        if entries:
            await run_in_worker(self._append, key, entries)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the entries of a transcript; None if it was never written."""
        return await run_in_worker(self._load, key)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the main transcripts of a project with the times of their last writes."""
        return await run_in_worker(self._list_sessions, project_key)

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the summaries of the main transcripts of a project."""
        return await run_in_worker(self._list_summaries, project_key)

    async def delete(self, key: SessionKey) -> None:
        """Delete a transcript; a main transcript goes with those of its sub-agents."""
        await run_in_worker(self._delete, key)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a session."""
        return await run_in_worker(self._list_subkeys, key)

    def _append(self, key: SessionKey, entries: Sequence[SessionStoreEntry]) -> None:
        """Append until no other writer interferes: the summary depends on what is stored."""

        def attempt() -> None:
            thread_id = self._thread_of(key) or self._create(key, entries)
            head = head_of(self._log, thread_id) if _is_main(key) else None
            records = self._records(key, thread_id, entries)
            self._log.append(thread_id, records, expect=head)

        retrying(attempt)

    def _records(
        self, key: SessionKey, thread_id: str, entries: Sequence[SessionStoreEntry]
    ) -> list[NewRecord]:
        records = [_as_record(entry) for entry in entries]
        if _is_main(key):
            given = [record.id for record in records if record.id is not None]
            known = self._log.stored_ids(thread_id, given)
            new = [
                entry
                for entry, record in zip(entries, records, strict=True)
                if record.id is None or record.id not in known
            ]
            if new:
                summary = fold_session_summary(self._summary_of(thread_id), key, new)
                records.append(control.register(_SUMMARY, dict(summary)))
        return records

    def _create(self, key: SessionKey, entries: Sequence[SessionStoreEntry]) -> str:
        """Create the thread of a transcript; a sub-agent's is a child of the main one.

        Raises:
            ConflictError: Another writer has created it.
        """
        parent: str | None = None
        if not _is_main(key):
            main: SessionKey = {"project_key": key["project_key"], "session_id": key["session_id"]}
            parent = self._thread_of(main)
        fields: dict[str, Any] = {"agent": "claude", "cwd": _directory_in(entries), **self._meta}
        return create(
            self.store,
            NAMESPACE,
            _parts(key),
            payload_format=FORMAT,
            kind="session" if _is_main(key) else "subagent",
            parent=parent,
            **fields,
        )

    def _load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        thread_id = self._thread_of(key)
        if thread_id is None:
            return None
        found: list[SessionStoreEntry] = []
        with contextlib.suppress(SessionNotFoundError):  # deleted meanwhile
            found += [record.payload for record in visible(self._log.read_back(thread_id))]
        return found or None

    def _list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        return [
            {"session_id": thread.key[1], "mtime": _millis(thread)}
            for thread in self._mains(project_key)
            if thread.key is not None
        ]

    def _list_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        found: list[SessionSummaryEntry] = []
        for thread in self._mains(project_key):
            summary = self._summary_of(thread.thread_id)
            if summary is not None:
                found.append({**summary, "mtime": _millis(thread)})
        return found

    def _mains(self, project_key: str) -> list[ThreadSummary]:
        """Return the main transcripts of a project; one that holds no entry yet is left out."""
        return [
            thread
            for thread in threads_below(self._log, NAMESPACE, project_key)
            if thread.key is not None and thread.key[2] == "" and thread.head > 1
        ]

    def _delete(self, key: SessionKey) -> None:
        if _is_main(key):
            self.store.delete_prefix(NAMESPACE, (key["project_key"], key["session_id"]))
            return
        thread_id = self._thread_of(key)
        if thread_id is not None:
            self._log.delete(thread_id)

    def _list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        threads = threads_below(self._log, NAMESPACE, key["project_key"], key["session_id"])
        return sorted(thread.key[2] for thread in threads if thread.key and thread.key[2])

    def _thread_of(self, key: SessionKey) -> str | None:
        return self._log.find(NAMESPACE, _parts(key))

    def _summary_of(self, thread_id: str) -> SessionSummaryEntry | None:
        with contextlib.suppress(SessionNotFoundError):  # deleted meanwhile
            for record in self._log.read_back(thread_id, kinds=(control.REGISTER,)):
                if record.payload.get("name") == _SUMMARY:
                    return cast("SessionSummaryEntry", record.payload.get("value"))
        return None


def _parts(key: SessionKey) -> tuple[str, str, str]:
    return key["project_key"], key["session_id"], key.get("subpath") or ""


def _is_main(key: SessionKey) -> bool:
    return not key.get("subpath")


def _as_record(entry: SessionStoreEntry) -> NewRecord:
    uuid: Any = entry.get("uuid")
    return NewRecord(payload=entry, id=_record_id(uuid) if isinstance(uuid, str) and uuid else None)


def _record_id(uuid: str) -> str:
    """Return the id of the record of a line: its `uuid`, or a digest if that cannot be an id."""
    if uuid.strip() and len(uuid) <= MAX_ID_LENGTH and uuid.isprintable():
        return uuid
    return f"uuid-{sha256(uuid.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _directory_in(entries: Sequence[SessionStoreEntry]) -> str:
    """Return the working directory that the first line with one names; "" if none does."""
    named: list[Any] = [entry.get("cwd") for entry in entries]
    return next((cwd for cwd in named if isinstance(cwd, str)), "")


def _millis(thread: ThreadSummary) -> int:
    return round(thread.updated_at.timestamp() * 1000)
