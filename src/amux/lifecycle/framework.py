"""`SessionFramework`: durable sessions for an agent, from the first message to the last.

    sm = amux.framework(storage=FileSystemRollout("~/.myagent"))
    session = sm.start_session(cwd="/project", model="opus")
    session.message("user", "Hello")
    again = sm.resume(session.thread_id)

The framework adds hooks, restore, message sources and reset policies to a store. Each part can be
used without it, and each is loaded on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from amux.errors import DecisionRequiredError, StoreError, ValidationError
from amux.lifecycle.live_session import LiveSession, LiveState
from amux.lifecycle.restore import Approval, RestoreRegistry, corrupt_problem
from amux.lifecycle.restore_report import (
    EXPORT,
    START_FRESH,
    OnProblem,
    RestoreProblem,
    RestoreReport,
)
from amux.lifecycle.snapshots import read_state
from amux.rollout.ids import new_run_session_id
from amux.rollout.records import as_mapping
from amux.rollout.view import ITEMS
from amux.store.resume_counts import ResumeOutcome, count_resume
from amux.store.session_store import SessionStore

if TYPE_CHECKING:
    from pathlib import Path

    from amux.host import Host
    from amux.lifecycle.hooks import LifecycleHook
    from amux.lifecycle.lifecycle import Lifecycle
    from amux.lifecycle.message_source import SessionSource
    from amux.lifecycle.reset import ResetPolicy, ResetPolicySet
    from amux.lifecycle.router import SourceRouter
    from amux.rollout.log import ThreadLog
    from amux.store.file_log.index import ThreadIndex
    from amux.store.thread import Summary

SOON: Final = timedelta(minutes=10)
"""A clear within this time after a resume counts as a sign that something was missing."""


def framework(
    storage: SessionStore | ThreadLog | Path | str,
    index: ThreadIndex | Path | str | None = None,
    reset_policy: ResetPolicy | ResetPolicySet | None = None,
    *,
    now: Callable[[], datetime] | None = None,
    is_valid_model: Callable[[str], bool] | None = None,
    default_model: str | None = None,
    host: Host | None = None,
    bare: bool = False,
    managed_only: bool = False,
) -> SessionFramework:
    """Return a framework over a storage; nothing is read or created before the first use.

    Args:
        storage: A directory, a `postgresql://` URL, "memory:", a store or a backend.
        index: The index of a directory: a `SqliteSessionIndex` or its path. By default it is the
            file `state.db` in the directory.
        reset_policy: When sessions of chats start anew. Sessions without a message source are
            never reset.
        now: A clock, for tests.
        is_valid_model: Whether a recorded model can still be used.
        default_model: The model that replaces one that cannot.
        host: The machine whose `hooks.json` names commands to run as hooks. Without it, hooks are
            those that are registered, and those of installed packages.
        bare: Run no hooks and load none.
        managed_only: Run only hooks of the administrator and of amux itself.
    """
    return SessionFramework(
        _store(storage, index, now),
        reset_policy=reset_policy,
        now=now,
        restore=RestoreRegistry(is_valid_model=is_valid_model, default_model=default_model),
        host=host,
        bare=bare,
        managed_only=managed_only,
    )


def _store(
    storage: SessionStore | ThreadLog | Path | str,
    index: ThreadIndex | Path | str | None,
    now: Callable[[], datetime] | None,
) -> SessionStore:
    if isinstance(storage, SessionStore):
        if index is not None:
            raise ValidationError("a store has its own index", fields=("index",))
        return storage
    if index is None or isinstance(storage, str) or hasattr(storage, "__fspath__"):
        return SessionStore(storage, index=index, now=now)
    use_index: Callable[[Any], None] | None = getattr(storage, "use_index", None)
    if use_index is None:
        raise ValidationError(
            f"a `{type(storage).__name__}` has its own index",
            fields=("index",),
            hint="leave `index` out",
        )
    use_index(index)
    return SessionStore(storage, now=now)


class SessionFramework:
    """Starts, resumes, forks and ends the sessions of one store."""

    def __init__(
        self,
        store: SessionStore,
        *,
        reset_policy: ResetPolicy | ResetPolicySet | None = None,
        now: Callable[[], datetime] | None = None,
        restore: RestoreRegistry | None = None,
        host: Host | None = None,
        bare: bool = False,
        managed_only: bool = False,
    ) -> None:
        self.store = store
        self.restore = RestoreRegistry() if restore is None else restore
        self._reset_policy = reset_policy
        self._now = now or (lambda: datetime.now(UTC))
        self._host = host
        self._bare = bare
        self._managed_only = managed_only

    @cached_property
    def lifecycle(self) -> Lifecycle:
        """The hooks; plugins are loaded when the first of them may run."""
        from amux.lifecycle.lifecycle import Lifecycle

        lifecycle, host = Lifecycle(restore=self.restore, now=self._now), self._host
        if host is not None:

            def load(warn: Callable[[str], None]) -> dict[str, LifecycleHook]:
                from amux.lifecycle.command_hooks import read_hooks

                return read_hooks(host, warn)

            lifecycle.add_loader("hooks.json", load)
        return lifecycle

    @cached_property
    def reset(self) -> ResetPolicySet:
        """The reset policies of platforms and types of chats."""
        from amux.lifecycle.reset import ResetPolicySet

        given = self._reset_policy
        if isinstance(given, ResetPolicySet):
            return given
        return ResetPolicySet() if given is None else ResetPolicySet(default=given)

    @cached_property
    def router(self) -> SourceRouter:
        """The sessions of chats."""
        from amux.lifecycle.router import SourceRouter

        return SourceRouter(self.store, reset=self.reset, now=self._now, lifecycle=self.lifecycle)

    # starting

    def start_session(
        self,
        *,
        cwd: str,
        model: str | None = None,
        source: SessionSource | str = "cli",
        initial_messages: Sequence[Mapping[str, Any]] = (),
        **meta: Any,
    ) -> LiveSession:
        """Start a session and run the startup hooks.

        `source` is a name, or the place of a chat that the messages come from. Further fields are
        those of `SessionStore.start`.
        """
        if not isinstance(source, str):
            from amux.lifecycle.router import source_fields

            fields = source_fields(source)
            fields["extra"] = {**(meta.pop("extra", None) or {}), **fields["extra"]}
            meta = {**fields, **meta}
        else:
            meta = {"source": source, **meta}
        handle = self.store.start(cwd=cwd, model=model, initial_messages=initial_messages, **meta)
        session = self._new_session(handle.thread_id, handle.run_session_id)
        self._process("startup", session, initial_messages=initial_messages)
        return session

    def fork(self, ref: str, **options: Any) -> LiveSession:
        """Start a session with a copy of a conversation; `options` are those of the store."""
        previous = self.store.resolve(ref)
        handle = self.store.fork(previous, **options)
        session = self._new_session(handle.thread_id, handle.run_session_id)
        messages = session.conversation()
        self._process("startup", session, initial_messages=messages, previous=previous)
        self._notify("fork", session, previous=previous)
        return session

    def _new_session(self, thread_id: str, run_session_id: str) -> LiveSession:
        session = LiveSession(self.store.log, thread_id, run_session_id)
        premises = read_state(session.meta, ()).premises
        session.state = msgspec.convert(premises, LiveState)
        return session

    # resuming

    def resume(
        self,
        ref: str,
        *,
        approval: Approval = "recorded",
        cwd: str | None = None,
        on_problem: OnProblem | None = None,
    ) -> LiveSession:
        """Continue a session by id, unique prefix or title, with everything that was recorded.

        `report` of the session says what was brought back. `approval="safe"` gives up recorded
        permissions. `cwd` replaces the working directory. `on_problem` decides when the directory
        is missing or the session cannot be read; without it, such a resume changes nothing.

        Raises:
            DecisionRequiredError: The caller must choose how to go on.
            StoreError: A newer version of amux wrote the session.
        """
        thread_id = self.store.resolve(ref)
        session = LiveSession(self.store.log, thread_id, new_run_session_id())
        try:
            report = self.restore.restore(
                session, approval=approval, cwd=cwd, on_problem=on_problem
            )
        except DecisionRequiredError as error:
            if error.kind == "corrupt" and on_problem is not None:
                problem = corrupt_problem(thread_id, error.message)
                return self._replace(problem, on_problem, cwd)
            self._count("undecided")
            raise
        except StoreError:
            self._count("failed")
            raise
        session.run_session_id = self.store.resume(thread_id).run_session_id
        session.report, session.resumed_at = report, self._now()
        self._process("resume", session)
        self._count("complete" if report.is_complete else "partial")
        return session

    def _replace(
        self, problem: RestoreProblem, on_problem: OnProblem, cwd: str | None
    ) -> LiveSession:
        """Start a new session in place of one that cannot be read, which stays as it is."""
        decision = on_problem(problem)
        thread_id = problem.subject
        notes = [problem.message, f"this session replaces `{thread_id}`"]
        if decision.choice == EXPORT and decision.value is not None:
            count = export_messages(self.store.log, thread_id, decision.value)
            notes.append(f"{count} messages were exported to `{decision.value}`")
        elif decision.choice != START_FRESH:
            raise ValidationError(
                f"`{decision.choice}` is no answer to a session that cannot be read",
                fields=("choice",),
                hint=f"answer `{START_FRESH}`, or `{EXPORT}` with a file as the value",
            )
        fresh = self.start_session(cwd=cwd or "", replaces=thread_id)
        fresh.report = RestoreReport(thread_id=fresh.thread_id, notes=tuple(notes))
        self._count("partial")
        return fresh

    # working

    def checkpoint(self, session: LiveSession) -> dict[str, Any]:
        """Store the state of a session, with the commit its directory is at; return the state.

        Call it when a turn ends: a process that dies loses the changes since the last one.
        """
        from amux.lifecycle.git_state import git_state

        found = git_state(session.state.cwd) if session.state.cwd else None
        if found is not None:
            session.state.git_sha, session.state.git_branch = found.sha, found.branch
        states = self.restore.snapshot(session)
        self._notify("checkpoint", session)
        return states

    def clear(self, session: LiveSession) -> None:
        """Empty the conversation; cost, model, to-do list and plugin state stay."""
        if self._bare:
            session.clear()
        else:
            self._process("clear", session)
        resumed_at, session.resumed_at = session.resumed_at, None
        if resumed_at is not None and self._now() - resumed_at <= SOON:
            self._count("cleared_soon")

    def compact(
        self,
        session: LiveSession,
        summarize: Callable[[list[dict[str, Any]]], Summary] | Summary,
        **options: Any,
    ) -> str | None:
        """Replace the older part of the conversation by a summary; return its id.

        The result is None if there is nothing to summarise. `options` are those of
        `ThreadHandle.compact`.
        """
        if self._bare:
            return session.compact(summarize, **options)
        self._process("compact", session, summarize=summarize, options=options)
        return None if session.outcome is None else session.outcome.compacted

    def reset_session(self, session: LiveSession, reason: str = "reset") -> None:
        """Empty the conversation and begin a new run; the old transcript stays searchable."""
        from amux.lifecycle.builtin_hooks import set_baseline

        session.reset(reason)
        set_baseline(session.state, None)
        self.restore.snapshot(session)
        session.run_session_id = self.store.resume(session.thread_id).run_session_id
        self.store.log.sync(session.thread_id)
        self._notify("session_reset", session, reason=reason)

    def end(self, session: LiveSession, reason: str = "user_exit") -> None:
        """Store the state of a session and end it; it can be resumed."""
        self.restore.snapshot(session)
        session.end(reason)
        self._notify("session_ended", session, reason=reason)
        session.close()

    def close(self) -> None:
        """Release the files and connections of the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _process(self, source: str, session: LiveSession, **details: Any) -> None:
        if self._bare:
            if source == "startup":
                self.restore.snapshot(session)
            return
        session.outcome = self.lifecycle.process(
            source, session, managed_only=self._managed_only, **details
        )

    def _notify(self, event: str, session: LiveSession, **details: Any) -> None:
        if not self._bare:
            self.lifecycle.notify(event, session, **details)

    def _count(self, outcome: ResumeOutcome) -> None:
        count_resume(self.store.log, outcome)


def export_messages(log: ThreadLog, thread_id: str, path: str) -> int:
    """Write the messages of a thread that can be read to a new file; return how many.

    Each line is a message as JSON, with its `timestamp`. Cleared and compacted messages are there.
    """
    import os

    lines: list[bytes] = []
    for record in log.read(thread_id):
        message = dict(as_mapping(record.payload)) if record.type in ITEMS else {}
        if message:
            lines.append(msgspec.json.encode({"timestamp": record.at, **message}) + b"\n")
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
            file.writelines(lines)
    except OSError as error:
        raise StoreError(f"cannot write `{path}`: {error.strerror or error}") from error
    return len(lines)
