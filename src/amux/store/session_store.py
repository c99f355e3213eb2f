"""`SessionStore`: durable threads for programs that talk to models.

    store = SessionStore("~/.myagent")
    thread = store.start(cwd="/project", model="opus")
    thread.message("user", "Hello")
    again = store.resume(thread.thread_id)

The store is a set of operations over the log protocol; where the threads lie (files, memory,
PostgreSQL) is the business of the backend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

from amux._version import __version__
from amux.errors import AmbiguousIdError, SessionNotFoundError, StoreError, ValidationError
from amux.rollout import control
from amux.rollout.ids import is_valid_session_id, new_run_session_id, new_thread_id
from amux.rollout.log import Fsync, MessageHit, SearchQuery, ThreadLog, VacuumReport
from amux.rollout.messages import message_of
from amux.rollout.records import NewRecord, PayloadText, Record, SessionMeta
from amux.rollout.threads import ThreadFilter, ThreadOrder, ThreadSummary
from amux.store.connect import connect
from amux.store.removal import removable
from amux.store.reports import (
    Child,
    DoctorReport,
    EraseReport,
    ImportReport,
    Lineage,
    ModelUsage,
    OptimizeReport,
    PruneReport,
    RebuildReport,
    RepairReport,
    StoreStats,
    ThreadReport,
)
from amux.store.resume_counts import read_resume_counts
from amux.store.thread import ThreadHandle, ThreadView
from amux.store.titles import clean_title, next_title, split_number
from amux.store.turns import TurnContext

if TYPE_CHECKING:
    from amux.model.session import Session
    from amux.store.file_log.index import ThreadIndex

Threads = list[ThreadSummary]
Hits = list[MessageHit]
"""`list` is also the name of a method."""

_META_FIELDS = frozenset(SessionMeta.__struct_fields__)
_RESERVED = frozenset({"thread_id", "session_id", "created_at", "schema_version", "copied"})
_INHERITED = (
    "agent", "source", "namespace", "payload_format", "user_id", "agent_role", "agent_nickname",
    "agent_path", "git_origin_url", "base_instructions", "dynamic_tools", "event_persistence",
)  # fmt: skip
_ENVIRONMENT = (
    "model", "model_provider", "approval_mode", "sandbox_policy", "git_sha", "git_branch",
)  # fmt: skip
_TOP = 10


class SessionStore:
    """Threads in one place: a directory, a `postgresql://` URL, "memory:", or a backend."""

    def __init__(
        self,
        base: Path | str | ThreadLog,
        *,
        index: ThreadIndex | Path | str | None = None,
        fsync: Fsync = "turn",
        now: Callable[[], datetime] | None = None,
    ) -> None:
        """Open a store; nothing is read or created before the first use.

        `index` is the index of a directory, such as a `SqliteSessionIndex`, or its place; by
        default it is `state.db` in the directory.
        """
        self._now = now or (lambda: datetime.now(UTC))
        self.log: ThreadLog = connect(base, index=index, fsync=fsync, now=self._now)

    # starting and resuming

    def start(
        self,
        *,
        cwd: str,
        model: str | None = None,
        agent: str = "amux",
        title: str | None = None,
        source: str = "cli",
        initial_messages: Sequence[Mapping[str, Any]] = (),
        **meta: Any,
    ) -> ThreadHandle:
        """Start a thread. Unknown fields of `meta` are stored in `SessionMeta.extra`.

        Raises:
            ConflictError: A thread with the given `key` exists.
            TitleInUseError: Another thread has the title.
        """
        records = [NewRecord(payload={"type": "message", **each}) for each in initial_messages]
        given = self._new_meta(
            meta, cwd=cwd, model=model, agent=agent, source=source, title=clean_title(title)
        )
        self.log.create(given, records)
        return ThreadHandle(self.log, given.thread_id, given.session_id)

    def _new_meta(self, fields: Mapping[str, Any], **known: Any) -> SessionMeta:
        unknown = sorted(_RESERVED & set(fields))
        if unknown:
            raise ValidationError(f"`{unknown[0]}` is set by the store", fields=unknown)
        extra = {name: value for name, value in fields.items() if name not in _META_FIELDS}
        named = {name: value for name, value in fields.items() if name in _META_FIELDS}
        if "title" in named:
            named["title"] = clean_title(named["title"])
        if named.get("key") is not None:
            named["key"] = tuple(named["key"])
        given: dict[str, Any] = {**known, **named}
        given["extra"] = {**extra, **(named.get("extra") or {})}
        return SessionMeta(
            thread_id=new_thread_id(),
            session_id=new_run_session_id(),
            created_at=self._now(),
            cli_version=__version__,
            **given,
        )

    def resume(self, ref: str) -> ThreadHandle:
        """Continue a thread by id, unique prefix or title; the run gets an id of its own."""
        thread_id = self.resolve(ref)
        self.log.meta(thread_id)  # refuses a damaged thread
        run = new_run_session_id()
        resumed = control.event(control.SESSION_RESUMED, session_id=run, cli_version=__version__)
        self.log.append(thread_id, (resumed,))
        return ThreadHandle(self.log, thread_id, run)

    def thread(self, ref: str) -> ThreadHandle:
        """Return a thread to change, without a record that a run continues it."""
        thread_id = self.resolve(ref)
        self.log.meta(thread_id)  # refuses a damaged thread
        return ThreadHandle(self.log, thread_id, new_run_session_id())

    def open(self, ref: str) -> ThreadView:
        """Return a thread to read; nothing is written."""
        return ThreadView(self.log, self.resolve(ref))

    def find(self, namespace: str, key: Sequence[str]) -> ThreadHandle | None:
        """Return the thread with an external key; None if there is none. Nothing is written."""
        thread_id = self.log.find(namespace, tuple(key))
        if thread_id is None:
            return None
        return ThreadHandle(self.log, thread_id, new_run_session_id())

    def resolve(self, ref: str) -> str:
        """Return the id of the thread that an id, a unique prefix or a title names."""
        wanted = ref.strip().removeprefix("amux:")
        if is_valid_session_id(wanted):
            if self.log.resolve(wanted):
                return wanted.lower()
        else:
            titled = self.by_title(ref.strip())
            if titled is not None:
                return titled
            found = self.log.resolve(wanted) if wanted else []
            if len(found) == 1:
                return found[0]
            if found:
                raise AmbiguousIdError(
                    f"`{ref}` is the beginning of {len(found)} thread ids",
                    candidates=[f"amux:{each}" for each in found[:10]],
                    hint="give more characters of the id",
                )
        raise SessionNotFoundError(
            f"the store has no thread `{ref}`", hint="`amux store list` shows the threads"
        )

    # listing and searching

    def list(
        self,
        *,
        archived: bool | None = False,
        cwd: str | None = None,
        model: str | None = None,
        source: str | None = None,
        tag: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        order: ThreadOrder = "last_active",
        limit: int | None = 100,
        offset: int = 0,
        **filters: Any,
    ) -> Threads:
        """Return threads, the last active first. `filters` are further fields of `ThreadFilter`."""
        return self.log.threads(
            ThreadFilter(
                archived=archived,
                cwd=cwd,
                model=model,
                source=source,
                tag=tag,
                since=since,
                until=until,
                order=order,
                limit=limit,
                offset=offset,
                **filters,
            )
        )

    def search(
        self,
        query: str,
        *,
        sources: Sequence[str] | None = None,
        exclude_sources: Sequence[str] | None = None,
        roles: Sequence[str] | None = None,
        limit: int = 20,
        offset: int = 0,
        sort: Literal["rank", "newest", "oldest"] = "rank",
        include_inactive: bool = False,
        thread_id: str | None = None,
    ) -> Hits:
        """Return messages that match a query; blank text matches nothing."""
        return self.log.search(
            SearchQuery(
                text=query,
                sources=tuple(sources or ()),
                exclude_sources=tuple(exclude_sources or ()),
                roles=tuple(roles or ()),
                limit=limit,
                offset=offset,
                sort=sort,
                include_inactive=include_inactive,
                thread_id=thread_id,
            )
        )

    def stats(self) -> StoreStats:
        """Return counts over all threads, archived ones included."""
        threads = self.list(archived=None, limit=None)
        models: dict[str | None, list[ThreadSummary]] = {}
        for thread in threads:
            models.setdefault(thread.model, []).append(thread)
        usage = [_usage_of(model, each) for model, each in models.items()]
        by_tokens = sorted(threads, key=lambda t: t.input_tokens + t.output_tokens, reverse=True)
        return StoreStats(
            threads=len(threads),
            archived=sum(thread.archived for thread in threads),
            messages=sum(thread.message_count for thread in threads),
            turns=sum(thread.turn_count for thread in threads),
            models=tuple(sorted(usage, key=lambda u: -u.input_tokens - u.output_tokens)),
            top=tuple(by_tokens[:_TOP]),
            resumes=read_resume_counts(self.log),
        )

    # changing threads

    def fork(
        self,
        ref: str,
        *,
        keep_last: int | None = None,
        keep_first: int | None = None,
        until: str | None = None,
        summary: str | None = None,
        **meta: Any,
    ) -> ThreadHandle:
        """Start a new thread with a copy of a conversation; the original is not touched.

        The whole conversation is copied, or its last or first items, or those up to the record
        `until`. Copies keep their ids. A copy never begins with the result of a tool.
        """
        parent = self.open(ref)
        copied = _part(parent.conversation_records(), keep_last, keep_first, until)
        while copied and _is_tool_result(copied[0], parent.meta.payload_format):
            copied = copied[1:]
        records = [
            NewRecord(
                type=record.type,  # type: ignore[arg-type]  # items have one of two of the types
                payload=PayloadText(record.text),
                id=record.id,
                parent_id=copied[number - 1].id if number else None,
                at=record.at,
                blobs=record.blobs,
            )
            for number, record in enumerate(copied)
        ]
        if summary is not None:
            records.insert(0, NewRecord(type="compacted", payload={"summary": summary}))
        title = parent.summary.title
        environment = parent.environment
        given = self._new_meta(
            meta,
            **{name: getattr(parent.meta, name) for name in _INHERITED},
            **{name: getattr(environment, name) for name in _ENVIRONMENT},
            cwd=environment.cwd or "",
            kind="fork",
            forked_from=parent.thread_id,
            fork_point=copied[-1].id if copied else None,
            title=self.next_title(title) if title else None,
        )
        given = msgspec.structs.replace(given, copied=len(records))
        rest = TurnContext(effort=environment.effort, extra=environment.extra)
        if rest != TurnContext():
            payload = msgspec.to_builtins(rest)
            records.append(NewRecord(type="turn_context", payload=payload))
        self.log.create(given, records)
        return ThreadHandle(self.log, given.thread_id, given.session_id)

    def archive(self, ref: str) -> None:
        """Move a thread to the archive."""
        self.log.archive(self.resolve(ref), archived=True)

    def unarchive(self, ref: str) -> None:
        """Bring a thread back from the archive."""
        self.log.archive(self.resolve(ref), archived=False)

    def archive_older_than(self, days: float, *, dry_run: bool = False) -> Threads:
        """Archive the threads that were not active for some days; return them."""
        old = self.list(until=self._now() - timedelta(days=days), limit=None)
        for thread in () if dry_run else old:
            self.log.archive(thread.thread_id, archived=True)
        return old

    def delete(self, ref: str) -> bool:
        """Delete a thread and its records. Forks of it have their own copies."""
        return self.log.delete(self.resolve(ref))

    def delete_prefix(self, namespace: str, key_prefix: Sequence[str]) -> int:
        """Delete all threads whose external key begins with a prefix; return how many."""
        found = self.list(
            namespace=namespace, key_prefix=tuple(key_prefix), archived=None, limit=None
        )
        return sum(self.log.delete(thread.thread_id) for thread in found)

    def prune(
        self,
        *,
        older_than_days: float = 90,
        source: str | None = None,
        dry_run: bool = False,
        **filters: Any,
    ) -> PruneReport:
        """Delete ended threads that were not active for some days; running ones are kept.

        Threads that have passed the limit of their namespace are deleted as well, ended or not.
        """
        from amux.store.retention import find_expired

        before = self._now() - timedelta(days=older_than_days)
        filters = {"archived": None, "ended": True, "limit": None, **filters}
        found = self.list(source=source, until=before, **filters)
        known = {each.thread_id for each in found}
        expired = find_expired(self.log, self.retention(), self._now())
        found += [
            each
            for each in expired
            if each.thread_id not in known and source in {None, each.source}
        ]
        deleted = 0 if dry_run else sum(self.log.delete(each.thread_id) for each in found)
        return PruneReport(threads=tuple(found), deleted=deleted, dry_run=dry_run)

    def retention(self) -> dict[str, float]:
        """Return the days after which `prune` deletes threads, by namespace."""
        from amux.store.retention import read_limits

        return read_limits(self.log)

    def set_retention(self, namespace: str, days: float | None) -> None:
        """Let `prune` delete the threads of a namespace after some days; None: no longer."""
        from amux.store.retention import set_limit

        set_limit(self.log, namespace, days)

    def erase_user(self, user_id: str, *, dry_run: bool = False) -> EraseReport:
        """Delete everything that belongs to a user, in all namespaces, with forks and copies."""
        from amux.store.retention import erase_user

        return erase_user(self.log, user_id, dry_run=dry_run)

    def erase(self, ref: str, ids: Sequence[str]) -> int:
        """Remove records from a thread for good; return how many records went."""
        return self.vacuum(ref, erase=ids).removed

    def vacuum(self, ref: str, *, erase: Sequence[str] = (), dry_run: bool = False) -> VacuumReport:
        """Remove rewound and superseded records, and those with the ids in `erase`, for good.

        With `dry_run` the records are counted and nothing is removed; the sizes are 0 then.
        """
        thread_id = self.thread(ref).thread_id
        if erase:
            known = {record.id for record in self.log.read(thread_id)}
            unknown = [each for each in erase if each not in known]
            if unknown:
                raise ValidationError(
                    f"thread `{thread_id}` has no record `{unknown[0]}`", fields=("erase",)
                )
        if dry_run:
            gone = removable(self.log.read_back(thread_id), frozenset(erase))
            return VacuumReport(removed=len(gone), bytes_before=0, bytes_after=0)
        return self.log.vacuum(thread_id, erase=frozenset(erase))

    # titles and lineage

    def set_title(self, ref: str, title: str | None) -> bool:
        """Give a thread a title, or take it away; return whether that changed anything."""
        thread_id, clean = self.resolve(ref), clean_title(title)
        thread = self.log.get(thread_id)
        if thread is not None and thread.title == clean:
            return False
        self.log.set_title(thread_id, clean)
        return True

    def by_title(self, title: str) -> str | None:
        """Return the latest thread of a title's lineage: "X #3" before "X #2" before "X"."""
        found = [
            (split_number(thread.title)[1], thread.thread_id)
            for thread in self._titled(title)
            if thread.title is not None
        ]
        exact = self.list(title=title, archived=None, limit=1)
        if exact and split_number(title)[1] > 1:
            return exact[0].thread_id
        return max(found)[1] if found else None

    def next_title(self, base: str) -> str:
        """Return the next free title of a lineage."""
        base = clean_title(base) or ""
        return next_title(base, (thread.title or "" for thread in self._titled(base)))

    def _titled(self, title: str) -> Threads:
        base = split_number(title)[0]
        return [
            thread
            for thread in self.list(title_base=base, archived=None, limit=None)
            if thread.title is not None and split_number(thread.title)[0] == base
        ]

    def lineage(self, ref: str) -> Lineage:
        """Return the ancestors and descendants of a thread; a cycle ends the walk."""
        thread_id = self.resolve(ref)
        seen = {thread_id}
        ancestors: list[Child] = []
        thread = self.log.get(thread_id)
        while thread is not None:
            child = _as_child(thread)
            if child is None or child.parent in seen:
                break
            seen.add(child.parent)
            ancestors.append(child)
            thread = self.log.get(child.parent)
        descendants: list[Child] = []
        level = [thread_id]
        while level:
            found = [
                child
                for parent in level
                for each in self.list(related_to=parent, archived=None, limit=None)
                if (child := _as_child(each)) is not None and child.thread_id not in seen
            ]
            seen.update(child.thread_id for child in found)
            descendants += found
            level = [child.thread_id for child in found]
        return Lineage(
            thread_id=thread_id, ancestors=tuple(ancestors), descendants=tuple(descendants)
        )

    # moving threads in and out

    def export(self, ref: str, format: str = "jsonl") -> str:
        """Return a thread as text: "jsonl" is the rollout, "json" one document with its items."""
        from amux.store import portable

        return portable.export(self.log, self.resolve(ref), format)

    def export_all(self, *, source: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield every thread as a document that `import_` takes."""
        from amux.store import portable

        for thread in self.list(source=source, archived=None, limit=None):
            yield portable.document_of(self.log, thread.thread_id)

    def import_(self, records: Iterable[Mapping[str, Any]]) -> ImportReport:
        """Store exported threads; threads whose id exists are skipped."""
        from amux.store import portable

        return portable.import_documents(self.log, records)

    def import_lines(self, lines: Iterable[bytes]) -> ImportReport:
        """Store exported text: a document per line, one document, or the lines of a rollout."""
        from amux.store import portable

        return portable.import_lines(self.log, lines)

    def import_session(self, session: Session) -> ThreadHandle:
        """Store a session that was read from any agent as a thread of our own."""
        from amux.store import portable

        thread_id, run = portable.import_session(self.log, session)
        return ThreadHandle(self.log, thread_id, run)

    def pack(self, ref: str, path: Path | str) -> Path:
        """Write a thread with its blobs into one file that another machine can unpack."""
        from amux.store.packing import pack

        return pack(self.log, self.resolve(ref), Path(path))

    def unpack(self, path: Path | str, *, cwd_map: Mapping[str, str] | None = None) -> ThreadHandle:
        """Store a packed thread. `cwd_map` replaces the beginnings of working directories."""
        from amux.store.packing import unpack

        thread_id = unpack(self.log, Path(path), cwd_map or {})
        return ThreadHandle(self.log, thread_id, new_run_session_id())

    # maintenance

    def rebuild_index(self, *, progress: Callable[[int, int], None] | None = None) -> RebuildReport:
        """Derive the index from the threads again; a backend without one does nothing."""
        rebuild: Callable[..., RebuildReport] | None = getattr(self.log, "rebuild", None)
        if rebuild is None:
            return RebuildReport(threads=len(self.list(archived=None, limit=None)), messages=0)
        return rebuild(progress=progress)

    def optimize(self) -> OptimizeReport:
        """Make the index small and fast, and remove blobs that no record refers to."""
        optimize: Callable[[], OptimizeReport] | None = getattr(self.log, "optimize", None)
        if optimize is not None:
            return optimize()
        return OptimizeReport(bytes_before=0, bytes_after=0, blobs_removed=self.log.collect_blobs())

    def repair(self, ref: str) -> RepairReport:
        """Keep the whole records of a damaged thread; the original is put aside."""
        thread_id = self.resolve(ref)
        repair: Callable[[str], RepairReport] | None = getattr(self.log, "repair", None)
        if repair is not None:
            return repair(thread_id)
        problems = tuple(self.log.verify(thread_id))
        if problems:
            raise StoreError(
                f"thread `{thread_id}` is damaged, and this store cannot repair it: {problems[0]}"
            )
        records = sum(1 for _ in self.log.read(thread_id))
        return RepairReport(thread_id=thread_id, records=records)

    def doctor(self, ref: str | None = None) -> DoctorReport:
        """Read one thread, or all, completely and report what is wrong."""
        thread_ids = self.log.resolve("") if ref is None else [self.resolve(ref)]
        reports = [
            ThreadReport(thread_id=each, problems=tuple(problems))
            for each in thread_ids
            if (problems := self.log.verify(each))
        ]
        found: Callable[[], tuple[Any, ...]] | None = getattr(self.log, "problems", None)
        return DoctorReport(
            checked=len(thread_ids),
            threads=tuple(reports),
            problems=() if found is None or ref is not None else found(),
        )

    def close(self) -> None:
        """Release files and connections."""
        self.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _part(
    records: list[Record], keep_last: int | None, keep_first: int | None, until: str | None
) -> list[Record]:
    if sum(each is not None for each in (keep_last, keep_first, until)) > 1:
        raise ValidationError(
            "a fork takes one of `keep_last`, `keep_first` and `until`",
            fields=("keep_last", "keep_first", "until"),
        )
    if keep_last is not None:
        return records[max(0, len(records) - keep_last) :] if keep_last > 0 else []
    if keep_first is not None:
        return records[: max(0, keep_first)]
    if until is None:
        return records
    for number, record in enumerate(records, 1):
        if record.id == until:
            return records[:number]
    raise ValidationError(f"the conversation has no record `{until}`", fields=("until",))


def _is_tool_result(record: Record, payload_format: str) -> bool:
    message = message_of(record, payload_format)
    return message is not None and message.role == "tool"


def _as_child(thread: ThreadSummary) -> Child | None:
    parent = thread.parent or thread.forked_from
    if parent is None or thread.kind == "session":
        return None
    return Child(thread_id=thread.thread_id, kind=thread.kind, parent=parent, title=thread.title)


def _usage_of(model: str | None, threads: Sequence[ThreadSummary]) -> ModelUsage:
    return ModelUsage(
        model=model,
        threads=len(threads),
        input_tokens=sum(thread.input_tokens for thread in threads),
        output_tokens=sum(thread.output_tokens for thread in threads),
        cache_read_tokens=sum(thread.cache_read_tokens for thread in threads),
        cache_write_tokens=sum(thread.cache_write_tokens for thread in threads),
        cost_usd=sum(thread.cost_nusd for thread in threads) / 1e9,
    )
