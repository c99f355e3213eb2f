"""Threads as a list shows them, and how appended records change them.

A backend keeps one `ThreadSummary` per thread. `summary_of` makes the first one from the meta data,
and `changes_by` says what a batch of records adds to it, so that every backend counts alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from amux.rollout import control
from amux.rollout.messages import RecordUsage, message_of, usage_of
from amux.rollout.records import Record, SessionMeta, as_mapping

PREVIEW_LENGTH = 63
_META_TEXTS = (
    "agent", "source", "namespace", "payload_format", "parent", "forked_from", "cwd", "model",
    "user_id", "title",
)  # fmt: skip

ThreadOrder = Literal["last_active", "created", "title"]


class ThreadSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A thread in a list, without its records.

    `head` is the sequence number of its last record. `updated_at` is the time of the last append,
    or the time that a caller set. Counts include hidden messages.
    """

    thread_id: str
    created_at: datetime
    updated_at: datetime
    head: int
    agent: str = "amux"
    source: str = "cli"
    namespace: str = ""
    key: tuple[str, ...] | None = None
    payload_format: str = "amux"
    kind: Literal["session", "fork", "continuation", "subagent"] = "session"
    parent: str | None = None
    forked_from: str | None = None
    cwd: str = ""
    model: str | None = None
    user_id: str | None = None
    title: str | None = None
    tags: tuple[str, ...] = ()
    preview: str = ""
    last_message_at: datetime | None = None
    message_count: int = 0
    turn_count: int = 0
    tool_call_count: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_nusd: int = 0
    archived: bool = False
    ended_at: datetime | None = None
    end_reason: str | None = None
    last_call: str | None = None  # for `changes_by`: the last call that several records may state

    @property
    def last_active(self) -> datetime:
        """Return the time of the last message, or of the start if there is none."""
        return self.last_message_at or self.created_at

    @property
    def label(self) -> str:
        """Return a text for people: the title, the first prompt or the beginning of the id."""
        return self.title or self.preview or f"thread {self.thread_id[:8]}"


class ThreadChanges(msgspec.Struct, kw_only=True):
    """The changes that a batch of records makes in a summary.

    `added` are counts to add, `fields` are values to set; `preview` is set only if there is none.
    """

    head: int
    updated_at: datetime
    added: dict[str, int] = {}
    fields: dict[str, Any] = {}
    preview: str = ""
    last_call: str | None = None  # also part of `fields` if it is another one than before


class ThreadFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects threads; a field that is None selects all. The list is newest first."""

    archived: bool | None = False
    namespace: str | None = None
    key_prefix: tuple[str, ...] | None = None
    cwd: str | None = None
    worktree: str | None = None  # this directory and everything below it
    model: str | None = None
    source: str | None = None
    agent: str | None = None
    user_id: str | None = None
    parent: str | None = None
    related_to: str | None = None  # children and forks of a thread
    title: str | None = None
    title_base: str | None = None  # titles that begin with this text
    tag: str | None = None
    kind: str | None = None
    ended: bool | None = None
    since: datetime | None = None  # of `last_active`, inclusive
    until: datetime | None = None  # of `last_active`, exclusive
    order: ThreadOrder = "last_active"
    limit: int | None = None
    offset: int = 0

    def admits(self, thread: ThreadSummary) -> bool:
        """Return whether a thread is selected."""
        exact = (
            (self.archived, thread.archived),
            (self.namespace, thread.namespace),
            (self.cwd, thread.cwd),
            (self.model, thread.model),
            (self.source, thread.source),
            (self.agent, thread.agent),
            (self.user_id, thread.user_id),
            (self.parent, thread.parent),
            (self.title, thread.title),
            (self.kind, thread.kind),
            (self.ended, thread.ended_at is not None),
        )
        if any(wanted is not None and wanted != found for wanted, found in exact):
            return False
        key, prefix = thread.key, self.key_prefix or ()
        further = (
            (self.key_prefix, key is not None and key[: len(prefix)] == prefix),
            (self.tag, self.tag in thread.tags),
            (self.worktree, f"{thread.cwd}/".startswith(self.worktree_prefix)),
            (self.related_to, self.related_to in {thread.parent, thread.forked_from}),
            (self.title_base, (thread.title or "").startswith(self.title_base or "")),
        )
        if not all(is_met for wanted, is_met in further if wanted is not None):
            return False
        active = thread.last_active
        return (self.since is None or active >= self.since) and (
            self.until is None or active < self.until
        )

    @property
    def worktree_prefix(self) -> str:
        """The text with which directories in the worktree begin, if a slash follows them."""
        return f"{(self.worktree or '').rstrip('/')}/"

    def apply(self, threads: Iterable[ThreadSummary]) -> list[ThreadSummary]:
        """Return the selected threads in order, cut to the page that is asked for."""
        found = [thread for thread in threads if self.admits(thread)]
        if self.order == "title":
            found.sort(key=lambda thread: (thread.label.casefold(), thread.thread_id))
        elif self.order == "created":
            found.sort(key=lambda thread: (thread.created_at, thread.thread_id), reverse=True)
        else:
            found.sort(key=lambda thread: (thread.last_active, thread.thread_id), reverse=True)
        end = None if self.limit is None else self.offset + self.limit
        return found[self.offset : end]


def summary_of(meta: SessionMeta, record: Record) -> ThreadSummary:
    """Return the summary of a thread that consists of its first record."""
    texts: dict[str, str | None] = {name: getattr(meta, name) for name in _META_TEXTS}
    listed: dict[str, Any] = {name: text and listed_text(text) for name, text in texts.items()}
    return ThreadSummary(
        thread_id=meta.thread_id,
        created_at=meta.created_at,
        updated_at=record.at,
        head=record.seq,
        key=meta.key,
        kind=meta.kind,
        **listed,
    )


def listed_text(text: str) -> str:
    """Return a text as a list shows it: what a database cannot hold is replaced by U+FFFD.

    That are NUL characters and lone surrogates. The records keep them.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", "\ufffd")


def changes_by(
    records: Iterable[Record],
    *,
    payload_format: str,
    written_at: datetime,
    copied: int = 0,
    last_call: str | None = None,
) -> ThreadChanges:
    """Return the changes that appended records make; `written_at` is the time of the append.

    The usage of the first `copied` records after the meta data belongs to another thread.
    `last_call` is that of the summary: appended records may belong to the same call.
    """
    changes = ThreadChanges(head=0, updated_at=written_at, last_call=last_call)
    for record in records:
        changes.head = record.seq
        usage = usage_of(record, payload_format)
        if record.type == "response_item":
            is_continued = usage is not None and _states_last_call(usage, changes)
            _add_message(changes, record, payload_format, is_continued=is_continued)
        elif record.type == "event_msg":
            _add_event(changes, record)
        elif record.type == "turn_context":
            model = as_mapping(record.payload).get("model")
            if isinstance(model, str):
                changes.fields["model"] = listed_text(model)
        if usage is not None:
            _add_usage(changes, usage, is_copy=record.seq <= copied + 1)
    return changes


def _add_usage(changes: ThreadChanges, usage: RecordUsage, *, is_copy: bool) -> None:
    """Add the usage of a record; of several records of one call the largest output counts."""
    counts = {} if is_copy else usage.counts()
    if usage.key is not None:
        if _states_last_call(usage, changes):
            _, before = _call_of(changes.last_call)
            if counts.get("output_tokens", 0) < before.get("output_tokens", 0):
                return
            for name, count in before.items():
                _add(changes, name, -count)
        changes.last_call = msgspec.json.encode((listed_text(usage.key), counts)).decode()
        changes.fields["last_call"] = changes.last_call
    for name, count in counts.items():
        _add(changes, name, count)


def _states_last_call(usage: RecordUsage, changes: ThreadChanges) -> bool:
    key, _ = _call_of(changes.last_call)
    return usage.key is not None and listed_text(usage.key) == key


def _call_of(last_call: str | None) -> tuple[str | None, dict[str, int]]:
    """Return the key and the counts of the last call; None and nothing if there is none."""
    if last_call is None:
        return None, {}
    return msgspec.json.decode(last_call, type=tuple[str, dict[str, int]])


def _add(changes: ThreadChanges, name: str, count: int) -> None:
    if count:
        changes.added[name] = changes.added.get(name, 0) + count


def _add_message(
    changes: ThreadChanges, record: Record, payload_format: str, *, is_continued: bool = False
) -> None:
    message = message_of(record, payload_format)
    if message is None:
        return
    if not is_continued:
        _add(changes, "message_count", 1)
    _add(changes, "tool_call_count", len(message.tool_calls))
    changes.fields["last_message_at"] = record.at
    if message.role == "user" and not message.synthetic and message.content.strip():
        _add(changes, "turn_count", 1)
        if not changes.preview:
            changes.preview = _preview_of(message.content)


def _preview_of(content: str) -> str:
    """Return the beginning of a message on one line; it is usually in the first characters."""
    preview = " ".join(content[: 3 * PREVIEW_LENGTH].split())
    if len(preview) < PREVIEW_LENGTH:
        preview = " ".join(content[:1000].split())
    return listed_text(preview[:PREVIEW_LENGTH])


def _add_event(changes: ThreadChanges, record: Record) -> None:
    found = control.event_of(record)
    if found is None:
        return
    kind, payload = found
    match kind:
        case control.TITLE:
            title = payload.get("title")
            is_set = isinstance(title, str) and title != ""
            changes.fields["title"] = listed_text(str(title)) if is_set else None
        case control.TAGS:
            tags = control.texts_in(payload, "tags")
            changes.fields["tags"] = tuple(map(listed_text, tags))
        case control.SESSION_ENDED:
            changes.fields["ended_at"] = record.at
            changes.fields["end_reason"] = listed_text(str(payload.get("reason", "")))
        case control.SESSION_RESUMED:
            changes.fields["ended_at"] = changes.fields["end_reason"] = None
        case control.TOUCH:
            changes.updated_at = record.at
        case control.PROJECTION:
            _add_message(changes, record, "amux")
        case _:
            pass


def fold_thread(
    meta: SessionMeta, records: Sequence[Record], written_at: datetime | None = None
) -> ThreadSummary:
    """Return the summary of a thread from all its records."""
    return extend_thread(summary_of(meta, records[0]), records, meta.copied, written_at)


def extend_thread(
    thread: ThreadSummary,
    records: Sequence[Record],
    copied: int,
    written_at: datetime | None = None,
) -> ThreadSummary:
    """Return a summary after further records; without `written_at` the last record tells when."""
    if not records:
        return thread
    changes = changes_by(
        records,
        payload_format=thread.payload_format,
        written_at=written_at or max(thread.updated_at, records[-1].at),
        copied=copied,
        last_call=thread.last_call,
    )
    return apply_changes(thread, changes)


def apply_changes(thread: ThreadSummary, changes: ThreadChanges) -> ThreadSummary:
    """Return the summary after some changes."""
    counts = {name: getattr(thread, name) + count for name, count in changes.added.items()}
    return msgspec.structs.replace(
        thread,
        **{**counts, **changes.fields},
        head=max(thread.head, changes.head),
        updated_at=changes.updated_at,
        preview=thread.preview or changes.preview,
    )
