"""`SessionDB`: sessions and their messages in one SQLite file, with full-text search.

The class hands each question to the module that knows its tables. Times are Unix seconds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar, Unpack

from amux.host import Host
from amux.store.session_db import lineage, listing, removal, statistics, titles, transfer
from amux.store.session_db import messages as message_table
from amux.store.session_db import query as queries
from amux.store.session_db import sessions as session_table
from amux.store.session_db.indexed_file import IndexedFile
from amux.store.session_db.messages import Message
from amux.store.session_db.removal import PruneOptions
from amux.store.session_db.rows import Row
from amux.store.session_db.search import SearchFilter

T = TypeVar("T")

FILE_NAME: Final = "state.db"


class SessionDB:
    """Sessions and their messages in one SQLite file, which processes may share.

    The default file is `state.db` in amux's own data directory. Threads may share an object. Raises
    `StoreError` if the file is not a session database of a known version.
    """

    def __init__(
        self,
        db_path: Path | str | None = None,
        *,
        read_only: bool = False,
        host: Host | None = None,
    ) -> None:
        self._host = host or Host.from_process()
        path = self._host.data_dir() / FILE_NAME if db_path is None else Path(db_path)
        self._file = IndexedFile(path, self._host, read_only=read_only)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def db_path(self) -> Path:
        """The path of the file."""
        return self._file.path

    def close(self) -> None:
        """Write the log back into the file and close it."""
        self._file.close()

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Group the writes of a block into one transaction, which is faster and all or nothing.

        Other threads and processes wait until the block ends, so it should be short.
        """
        with self._file.transaction():
            yield

    # Sessions

    def create_session(
        self,
        session_id: str,
        source: str,
        *,
        model: str | None = None,
        model_config: object = None,
        system_prompt: str | None = None,
        user_id: str | None = None,
        parent_session_id: str | None = None,
        cwd: str | None = None,
        started_at: float | None = None,
    ) -> str:
        """Create a session and return its id.

        If the session exists, only the metadata that it lacks is filled in. Raises
        `SessionNotFoundError` if the parent does not exist.
        """
        metadata = {
            "model": model,
            "model_config": model_config,
            "system_prompt": system_prompt,
            "user_id": user_id,
            "parent_session_id": parent_session_id,
            "cwd": cwd,
        }
        start = self._now() if started_at is None else started_at
        self._write(
            lambda c: session_table.create(
                c, session_id, source, started_at=start, metadata=metadata
            )
        )
        return session_id

    def end_session(self, session_id: str, end_reason: str) -> None:
        """Mark a session as ended now. The first reason stays until the session is reopened."""
        now = self._now()
        self._write(lambda c: session_table.end(c, session_id, end_reason, now))

    def reopen_session(self, session_id: str) -> None:
        """Clear the end of a session, so that it can go on."""
        self._write(lambda c: session_table.reopen(c, session_id))

    def get_session(self, session_id: str) -> Row | None:
        """Return the columns of a session; None if it does not exist."""
        return self._read(lambda c: session_table.get(c, session_id))

    def resolve_session_id(self, session_id_or_prefix: str) -> str | None:
        """Return the id that equals the text or is the only one to begin with it; else None.

        Raises `AmbiguousIdError` if several ids begin with the text.
        """
        return self._read(lambda c: session_table.resolve_id(c, session_id_or_prefix))

    def update_token_counts(
        self,
        session_id: str,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        reasoning_tokens: int = 0,
        api_call_count: int = 0,
        estimated_cost_usd: float | None = None,
        actual_cost_usd: float | None = None,
        model: str | None = None,
        cost_status: str | None = None,
        cost_source: str | None = None,
        pricing_version: str | None = None,
        billing_provider: str | None = None,
        billing_base_url: str | None = None,
        billing_mode: str | None = None,
        absolute: bool = False,
    ) -> None:
        """Add tokens, calls and costs to those of a session, or set them with `absolute`.

        A cost of None is unknown. `estimated_cost_usd` is 0.0 then: `cost_status` tells whether it
        is known. The model and the billing fields are set if the session has none yet.
        """
        usage = session_table.Usage(
            counts={
                "input_tokens": input_tokens,
                "output_tokens": output_tokens,
                "cache_read_tokens": cache_read_tokens,
                "cache_write_tokens": cache_write_tokens,
                "reasoning_tokens": reasoning_tokens,
                "api_call_count": api_call_count,
            },
            estimated_cost_usd=estimated_cost_usd,
            actual_cost_usd=actual_cost_usd,
            labels={
                "cost_status": cost_status,
                "cost_source": cost_source,
                "pricing_version": pricing_version,
            },
            fallbacks={
                "model": model,
                "billing_provider": billing_provider,
                "billing_base_url": billing_base_url,
                "billing_mode": billing_mode,
            },
        )
        self._write(lambda c: session_table.add_usage(c, session_id, usage, absolute=absolute))

    def update_system_prompt(self, session_id: str, system_prompt: str) -> None:
        """Replace the system prompt of a session."""
        self._write(
            lambda c: session_table.set_value(c, session_id, "system_prompt", system_prompt)
        )

    def set_session_archived(self, session_id: str, archived: bool) -> bool:  # noqa: FBT001 - a value
        """Hide a session and the chain of continuations it belongs to from lists, or show them.

        Return False if the session does not exist.
        """
        return self._write(
            lambda c: session_table.set_archived(
                c, lineage.compression_lineage(c, session_id), archived=archived
            )
        )

    def session_count(
        self,
        source: str | None = None,
        *,
        cwd_prefix: str | None = None,
        min_message_count: int = 0,
        include_archived: bool = False,
        archived_only: bool = False,
        exclude_children: bool = False,
        exclude_sources: Collection[str] | None = None,
    ) -> int:
        """Return the number of sessions, without archived ones unless they are asked for."""
        wanted = listing.ListedSessions(
            source=source,
            exclude_sources=exclude_sources,
            cwd=cwd_prefix,
            min_message_count=min_message_count,
            include_children=not exclude_children,
            include_archived=include_archived,
            archived_only=archived_only,
        )
        return self._read(lambda c: listing.count(c, wanted))

    # Messages

    def append_message(
        self,
        session_id: str,
        role: str,
        content: object = None,
        *,
        tool_name: str | None = None,
        tool_calls: object = None,
        tool_call_id: str | None = None,
        token_count: int | None = None,
        finish_reason: str | None = None,
        reasoning: str | None = None,
        reasoning_content: str | None = None,
        reasoning_details: object = None,
        codex_reasoning_items: object = None,
        codex_message_items: object = None,
        timestamp: float | None = None,
    ) -> int:
        """Append a message to a session, raise its counters, and return the id of the message.

        Raises `SessionNotFoundError` if the session does not exist.
        """
        message = {
            "role": role,
            "content": content,
            "tool_name": tool_name,
            "tool_calls": tool_calls,
            "tool_call_id": tool_call_id,
            "token_count": token_count,
            "finish_reason": finish_reason,
            "reasoning": reasoning,
            "reasoning_content": reasoning_content,
            "reasoning_details": reasoning_details,
            "codex_reasoning_items": codex_reasoning_items,
            "codex_message_items": codex_message_items,
            "timestamp": timestamp,
        }
        return self.append_messages(session_id, [message])[0]

    def append_messages(self, session_id: str, messages: Collection[Message]) -> list[int]:
        """Append several messages in one transaction and return their ids.

        The keys of a message are the parameters of `append_message`.
        """
        now = self._now()
        return self._write(lambda c: message_table.insert(c, session_id, messages, now))

    def replace_messages(
        self, session_id: str, messages: Collection[Message], *, active_only: bool = False
    ) -> None:
        """Replace the messages of a session in one transaction, or only those that are active."""
        now = self._now()
        self._write(
            lambda c: message_table.replace(c, session_id, messages, now, active_only=active_only)
        )

    def get_messages(
        self,
        session_id: str,
        *,
        include_inactive: bool = False,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Row]:
        """Return the messages of a session with all columns, in the order they were appended."""
        return self._read(
            lambda c: message_table.select(
                c, session_id, include_inactive=include_inactive, limit=limit, offset=offset
            )
        )

    def get_messages_as_conversation(
        self, session_id: str, *, include_ancestors: bool = False, include_inactive: bool = False
    ) -> list[Row]:
        """Return the messages of a session as a model API takes them: role, content, tool calls.

        With `include_ancestors`, the messages of its parents come first.
        """

        def read(connection: sqlite3.Connection) -> list[Row]:
            chain = [session_id]
            if include_ancestors:
                line = lineage.ancestors(connection, session_id)
                chain = [row["id"] for row in reversed(line)]
            return message_table.conversation(connection, chain, include_inactive=include_inactive)

        return self._read(read)

    def message_count(self, session_id: str | None = None) -> int:
        """Return the number of stored messages of a session, or of all sessions."""
        return self._read(lambda c: message_table.count(c, session_id))

    def rewind_to_message(self, session_id: str, target_message_id: int) -> Row:
        """Take a prompt and all that follows out of the conversation and out of searches.

        Return `rewound_count`, `target_message` and `new_head_id`, the last active message.
        """
        return self._write(lambda c: message_table.rewind(c, session_id, target_message_id))

    def restore_rewound(self, session_id: str, since_message_id: int) -> int:
        """Bring back the rewound messages from an id on, and return their number."""
        return self._write(lambda c: message_table.restore(c, session_id, since_message_id))

    def archive_and_compact(self, session_id: str, compacted_messages: Collection[Message]) -> int:
        """Replace the conversation by a shorter one; searches still find the old messages.

        Return the number of active messages.
        """
        now = self._now()
        return self._write(lambda c: message_table.compact(c, session_id, compacted_messages, now))

    def clear_messages(self, session_id: str) -> None:
        """Remove all messages of a session and keep the session."""
        self._write(lambda c: message_table.clear(c, session_id))

    # Titles

    @staticmethod
    def sanitize_title(title: str | None) -> str | None:
        """Return a title as it would be stored; None if nothing is left of it."""
        return titles.sanitize(title)

    def set_session_title(self, session_id: str, title: str | None) -> bool:
        """Set the title of a session; None or blank clears it. Return False if it does not exist.

        Raises `TitleInUseError` if another session has the title, and `ValidationError` if it is
        too long.
        """
        return self._write(lambda c: titles.assign(c, session_id, title))

    def set_auto_title_if_empty(self, session_id: str, title: str) -> bool:
        """Set the title of a session that has none. Return whether it was set."""
        return self._write(lambda c: titles.assign(c, session_id, title, only_if_empty=True))

    def get_session_title(self, session_id: str) -> str | None:
        """Return the title of a session; None if it has none."""
        return self._read(lambda c: titles.title_of(c, session_id))

    def get_session_by_title(self, title: str) -> Row | None:
        """Return the session that has exactly this title; None if there is none."""
        return self._read(lambda c: titles.holder(c, title))

    def resolve_session_by_title(self, title: str) -> str | None:
        """Return the id of the latest session of a title and its numbered successors, or None."""
        return self._read(lambda c: titles.resolve(c, title))

    def get_next_title_in_lineage(self, base_title: str) -> str:
        """Return the next free title: the base itself, else the base with the next number."""
        return self._read(lambda c: titles.next_in_lineage(c, base_title))

    # Lineage

    def ancestors(self, session_id: str) -> list[Row]:
        """Return a session and its ancestors, the root last, each with its `kind` of child."""
        return self._read(lambda c: lineage.ancestors(c, session_id))

    def descendants(self, session_id: str) -> list[Row]:
        """Return a session and its descendants, parents first, each with its `kind` of child."""
        return self._read(lambda c: lineage.descendants(c, session_id))

    def get_conversation_root(self, session_id: str) -> str:
        """Return the id of the session from which a session descends; its own if it has none."""
        return self._read(lambda c: lineage.root_of(c, session_id))

    def get_compression_tip(self, session_id: str) -> str:
        """Return the id of the last continuation of a session; its own if it has none."""
        return self._read(lambda c: lineage.tip_of(c, session_id))

    def get_compression_lineage(self, session_id: str) -> list[str]:
        """Return the ids of the chain of continuations of a session, the first one first."""
        return self._read(lambda c: lineage.compression_lineage(c, session_id))

    def resolve_resume_session_id(self, session_id: str) -> str:
        """Return the id of the session in which to go on: the tip, never a branch or delegate."""
        return self.get_compression_tip(session_id)

    # Lists and statistics

    def list_sessions_rich(
        self,
        source: str | None = None,
        exclude_sources: Collection[str] | None = None,
        cwd_prefix: str | None = None,
        limit: int = 20,
        offset: int = 0,
        *,
        include_children: bool = False,
        min_message_count: int = 0,
        project_compression_tips: bool = True,
        order_by_last_active: bool = False,
        include_archived: bool = False,
        archived_only: bool = False,
    ) -> list[Row]:
        """Return sessions with `preview` and `last_active`, the latest start first.

        Delegates and continuations are left out unless asked for. The first session of a chain of
        continuations stands for the chain: it shows the id, title, model, counts and preview of the
        tip, and `_lineage_root_id` is its own id.
        """
        wanted = listing.ListedSessions(
            source=source,
            exclude_sources=exclude_sources,
            cwd=cwd_prefix,
            min_message_count=min_message_count,
            include_children=include_children,
            include_archived=include_archived,
            archived_only=archived_only,
        )
        return self._read(
            lambda c: listing.select(
                c,
                wanted,
                limit=limit,
                offset=offset,
                by_activity=order_by_last_active,
                project_tips=project_compression_tips,
            )
        )

    def search_sessions(
        self, source: str | None = None, limit: int = 20, offset: int = 0
    ) -> list[Row]:
        """Return all sessions, children included, with `last_active`, the latest activity first."""
        return self._read(lambda c: listing.by_activity(c, source, limit, offset))

    def recent_sessions(self, limit: int = 20) -> list[Row]:
        """Return the sessions that started last, with `preview` and `last_active`.

        The preview is the beginning of the first prompt; "" if there is none.
        """
        return self._read(lambda c: listing.recent(c, limit))

    def usage_by_model(self) -> list[Row]:
        """Return sessions, tokens and cost by model, the most expensive first.

        `total_cost` is None if no session of the model has a known cost, and a lower bound if
        `sessions_without_cost` is not zero.
        """
        return self._read(statistics.usage_by_model)

    def top_sessions(self, limit: int = 10) -> list[Row]:
        """Return the sessions with the most input and output tokens; an unknown cost is None."""
        return self._read(lambda c: statistics.top_sessions(c, limit))

    # Search

    def search_messages(
        self,
        query: str,
        source_filter: Collection[str] | None = None,
        exclude_sources: Collection[str] | None = None,
        role_filter: Collection[str] | None = None,
        *,
        limit: int = 20,
        offset: int = 0,
        sort: str | None = None,
        include_inactive: bool = False,
    ) -> list[Row]:
        """Return the messages that match a query, the best first, or by time with `sort`.

        Words must all occur; `"a phrase"`, `OR`, `NOT` and `prefix*` work as in FTS5. Each result
        has a `snippet` and, in `context`, the message between its neighbours. `sort` is newest or
        oldest.
        """
        wanted = SearchFilter(
            sources=source_filter,
            exclude_sources=exclude_sources,
            roles=role_filter,
            include_inactive=include_inactive,
            limit=limit,
            offset=offset,
            sort=sort,
        )
        return self._file.search(query, wanted)

    # Export, import, removal

    def export_session(self, session_id: str, *, include_inactive: bool = False) -> Row | None:
        """Return a session with its `messages`; None if it does not exist."""
        return self._read(
            lambda c: transfer.export_session(c, session_id, include_inactive=include_inactive)
        )

    def export_session_lineage(self, session_id: str) -> Row | None:
        """Return a chain of continuations as one session with all its messages, or None."""
        return self._read(lambda c: transfer.export_lineage(c, session_id))

    def export_all(self, source: str | None = None, *, include_inactive: bool = False) -> list[Row]:
        """Return all sessions with their `messages`, the latest activity first."""
        return self._read(
            lambda c: transfer.export_all(c, source, include_inactive=include_inactive)
        )

    def import_sessions(self, sessions: Iterable[object]) -> Row:
        """Import exported sessions and return a report; sessions that exist are skipped.

        Everything is imported in one transaction. Sessions that cannot be imported are in `errors`.
        """
        now = self._now()
        return self._write(lambda c: transfer.import_sessions(c, sessions, now))

    def prune_sessions(
        self,
        older_than_days: float | None = 90,
        source: str | None = None,
        **options: Unpack[PruneOptions],
    ) -> int:
        """Remove ended sessions that started so many days ago; return their number.

        Children of removed sessions stay and lose their parent. `options` narrow the choice.
        """
        wanted, now = removal.PruneFilter(older_than_days, source, options), self._now()
        return self._write(lambda c: removal.prune(c, wanted, now))

    def list_prune_candidates(
        self,
        older_than_days: float | None = 90,
        source: str | None = None,
        **options: Unpack[PruneOptions],
    ) -> list[Row]:
        """Return the sessions that `prune_sessions` would remove, the oldest first."""
        wanted, now = removal.PruneFilter(older_than_days, source, options), self._now()
        return self._read(lambda c: removal.candidates(c, wanted, now))

    def delete_session(self, session_id: str) -> bool:
        """Remove a session with its messages and delegates. Return False if it does not exist.

        Other children stay and lose their parent.
        """
        return bool(self._write(lambda c: removal.delete(c, [session_id])))

    def delete_sessions(self, session_ids: Iterable[str]) -> int:
        """Remove several sessions, with their delegates, and return how many were removed."""
        ids = [*session_ids]
        return len(self._write(lambda c: removal.delete(c, ids)))

    def delete_empty_sessions(self) -> int:
        """Remove ended sessions without message, title or child, and return their number."""
        return self._write(removal.delete_empty)

    # Values and maintenance

    def get_meta(self, key: str) -> str | None:
        """Return a value of the key/value table; None if it is not set."""
        return self._read(lambda c: session_table.get_meta(c, key))

    def set_meta(self, key: str, value: str) -> None:
        """Set a value of the key/value table."""
        self._write(lambda c: session_table.set_meta(c, key, value))

    def rebuild_fts(self) -> int:
        """Fill the full-text tables anew from the messages, and return their number."""
        return self._file.rebuild()

    def optimize_fts(self) -> int:
        """Merge each full-text table into one segment, and return their number."""
        return self._file.optimize()

    def vacuum(self) -> None:
        """Give the space of removed sessions back to the file system."""
        self._file.vacuum()

    @staticmethod
    def _sanitize_fts5_query(text: str) -> str:
        return queries.sanitize(text)

    def _now(self) -> float:
        return self._host.now().timestamp()

    def _read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        return self._file.read(query)

    def _write(self, change: Callable[[sqlite3.Connection], T]) -> T:
        return self._file.write(change)
