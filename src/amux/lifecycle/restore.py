"""`RestoreRegistry`: saves the state of a session in its thread, and brings it back.

    registry = RestoreRegistry()
    registry.snapshot(session)            # while the agent works
    report = registry.restore(session)    # in another process, on the resumed session

Replaying the messages is not enough: an agent that has lost its working directory, its model, its
permissions or a part of its system prompt behaves like another one. A restore brings these back,
compares every value with the recorded one, and reports the differences. One part that fails does
not stop the others. Whatever cannot be decided for the caller is a `DecisionRequiredError`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol, TypeVar

import msgspec

from amux._version import __version__
from amux.errors import DecisionRequiredError, ValidationError
from amux.lifecycle.live_session import LiveSession, LiveState
from amux.lifecycle.restore_report import (
    EXPORT,
    KEEP_DIRECTORY,
    START_FRESH,
    USE_DIRECTORY,
    Decision,
    OnProblem,
    RestoreProblem,
    RestoreReport,
    SubsystemReport,
    compared,
)
from amux.lifecycle.snapshots import RecordedState, encode_snapshot, read_state
from amux.lifecycle.subsystems import builtin_subsystems
from amux.model.problems import Problem
from amux.rollout.control import SNAPSHOT
from amux.rollout.records import Record, as_mapping, encode_payload
from amux.rollout.view import conversation

T = TypeVar("T")

Approval = Literal["recorded", "safe"]
"""Permissions after a restore: as they were, or so that the agent asks before it acts."""

SAFE_APPROVAL: Final = "on-request"
SAFE_SANDBOX: Final = "read-only"


class RestorableSubsystem(Protocol[T]):
    """A part of a session's state that is saved and restored as a whole.

    `snapshot` returns a JSON value. A subsystem may also have a method `actual(state, session)`
    that returns the values to compare with a saved state; without it, the restored state is saved
    once more and compared.
    """

    @property
    def name(self) -> str:
        """The name of the subsystem, under which its state is stored."""
        ...

    def snapshot(self, session: LiveSession) -> T:
        """Return the state to store."""
        ...

    def restore(self, state: T, session: LiveSession) -> None:
        """Set the state that was stored."""
        ...


class RestoreRegistry:
    """The subsystems in the order in which they are restored, and what a restore checks.

    `is_valid_model` says whether a model can still be used; `default_model` replaces one that
    cannot. `is_directory` and `git_head` look at the machine that the agent runs on; `git_head`
    returns the commit of a directory, or None. `warn` gets a sentence about each subsystem whose
    state cannot be saved.
    """

    def __init__(
        self,
        *,
        is_valid_model: Callable[[str], bool] | None = None,
        default_model: str | None = None,
        is_directory: Callable[[str], bool] = os.path.isdir,
        git_head: Callable[[str], str | None] | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self._is_valid_model = is_valid_model
        self._default_model = default_model
        self._is_directory = is_directory
        self._git_head = git_head or _head_of
        self._warn = warn or _log_warning
        self._subsystems: list[RestorableSubsystem[Any]] = list(builtin_subsystems())

    @property
    def order(self) -> tuple[str, ...]:
        """The names of the subsystems in the order in which they are saved and restored."""
        return tuple(each.name for each in self._subsystems)

    def register(self, subsystem: RestorableSubsystem[Any], *, after: str | None = None) -> None:
        """Add a subsystem, last or after another one; the order of the others stays."""
        order = self.order
        if not subsystem.name or subsystem.name in order:
            raise ValidationError(
                f"a subsystem `{subsystem.name}` is registered"
                if subsystem.name
                else "a subsystem needs a name",
                fields=("name",),
            )
        if after is not None and after not in order:
            raise ValidationError(
                f"there is no subsystem `{after}`", fields=("after",), hint=", ".join(order)
            )
        place = len(order) if after is None else order.index(after) + 1
        self._subsystems.insert(place, subsystem)

    # saving

    def snapshot(self, session: LiveSession) -> dict[str, Any]:
        """Store the state of a session in its thread; return the states by subsystem.

        A state that cannot be saved, or that belongs to a subsystem which is not registered here,
        stays as it was saved before. A snapshot that equals the last one is not stored again.
        """
        saved = as_mapping((session.last_snapshot or {}).get("subsystems"))
        states = {name: state for name, state in saved.items() if name not in self.order}
        for each in self._subsystems:
            try:
                state = msgspec.to_builtins(each.snapshot(session))
                encode_payload(state)
            except Exception as error:  # noqa: BLE001 - one subsystem must not stop the others
                self._warn(f"the state of `{each.name}` cannot be saved: {_reason(error)}")
                if each.name in saved:
                    states[each.name] = saved[each.name]
            else:
                states[each.name] = state
        cwd = session.state.cwd
        value = encode_snapshot(
            session.state, states, had_directory=cwd is None or self._is_directory(cwd)
        )
        if value != session.last_snapshot:
            session.set_register(SNAPSHOT, value)
            session.last_snapshot = value
        return states

    # restoring

    def restore(
        self,
        session: LiveSession,
        *,
        approval: Approval = "recorded",
        cwd: str | None = None,
        on_problem: OnProblem | None = None,
    ) -> RestoreReport:
        """Bring back the state of a session from its thread; nothing is written.

        `cwd` replaces the recorded working directory. `on_problem` is asked when the recorded one
        is missing; without it nothing is decided.

        Raises:
            DecisionRequiredError: The working directory is missing and there is no decision, or
                nothing of the thread can be read.
            StoreError: The thread or its snapshot was written by a newer version of amux.
        """
        if approval not in ("recorded", "safe"):
            raise ValidationError(
                f"`approval` must be recorded or safe, not `{approval}`", fields=("approval",)
            )
        attempt = _Attempt(session)
        recorded = attempt.read()
        directory = attempt.choose_directory(recorded, cwd, self._is_directory, on_problem)
        attempt.apply_premises(recorded.premises)
        session.state.cwd = directory
        for each in self._subsystems:
            attempt.restore_subsystem(each, recorded.subsystems)
        attempt.keep_unknown(recorded.subsystems, self.order)
        attempt.check_model(self._is_valid_model, self._default_model)
        attempt.check_git(recorded.premises.get("git_sha"), self._git_head)
        if approval == "safe":
            attempt.make_safe()
        return attempt.report(recorded)

    def examine(self, session: LiveSession) -> RestoreReport:
        """Return the report of a restore without a question: open decisions are listed in it."""
        open_problems: list[RestoreProblem] = []

        def keep(problem: RestoreProblem) -> Decision:
            open_problems.append(problem)
            return Decision(KEEP_DIRECTORY)

        try:
            report = self.restore(session, on_problem=keep)
        except DecisionRequiredError as error:
            report = RestoreReport(thread_id=session.thread_id)
            open_problems.append(corrupt_problem(session.thread_id, error.message))
        return msgspec.structs.replace(report, undecided=tuple(open_problems))


class _Attempt:
    """One restore of one session: the values as they are found, and what there is to report."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session
        self._state = session.state
        self._warnings: list[str] = []
        self._notes: list[str] = []
        self._subsystems: list[SubsystemReport] = []
        self._messages = self._skipped = 0

    def read(self) -> RecordedState:
        """Read the thread; raise an error if it cannot be continued as it is."""
        session, thread_id = self._session, self._session.thread_id
        records, bad = _read_checked(session)
        if any(each.code == "unknown-format" for each in bad):
            next(iter(session.log.read(thread_id)), None)  # refuses what a newer version wrote
            raise _corrupt(thread_id, f"the meta data of thread `{thread_id}` cannot be read")
        meta = session.meta
        session.count_costs(records)
        items = conversation(reversed(records))
        readable = sum(map(session.is_readable, items))
        is_damaged = any(each.code != "torn-tail" for each in bad)
        if is_damaged and not any(each.type == "response_item" for each in records):
            raise _corrupt(thread_id, f"no message of thread `{thread_id}` can be read")
        self._messages, self._skipped = readable, len(items) - readable + len(bad)
        if self._skipped:
            self._notes.append(f"{self._skipped} unreadable records were skipped")
        return read_state(meta, records)

    def apply_premises(self, premises: Mapping[str, Any]) -> None:
        """Set the recorded premises; a value of another type is reported and left out."""
        for name, value in premises.items():
            try:
                converted = msgspec.convert({name: value}, LiveState)
            except msgspec.ValidationError as error:
                self._warnings.append(f"the recorded `{name}` cannot be used: {error}")
            else:
                setattr(self._state, name, getattr(converted, name))
        version = premises.get("cli_version")
        if version is not None and version != __version__:
            self._notes.append(
                f"version {version} of amux wrote the session; this is version {__version__}"
            )

    def choose_directory(
        self,
        recorded: RecordedState,
        given: str | None,
        is_directory: Callable[[str], bool],
        on_problem: OnProblem | None,
    ) -> str | None:
        """Return the directory to continue in: the given one, the recorded one, or a decision."""
        cwd = recorded.premises.get("cwd")
        if given is not None:
            return self._other_directory(given, is_directory)
        if not isinstance(cwd, str) or not cwd or is_directory(cwd):
            return cwd if isinstance(cwd, str) else None
        message = f"the working directory `{cwd}` of the session does not exist"
        if not recorded.had_directory:
            self._notes.append(f"{message}; nor did it when the session was saved")
            return cwd
        problem = RestoreProblem(
            kind="cwd_missing",
            message=message,
            choices=(USE_DIRECTORY, KEEP_DIRECTORY),
            subject=cwd,
        )
        if on_problem is None:
            raise DecisionRequiredError(
                message,
                kind=problem.kind,
                choices=problem.choices,
                hint="pass `cwd` with another directory, or decide in `on_problem`",
            )
        decision = on_problem(problem)
        if decision.choice == USE_DIRECTORY and decision.value is not None:
            return self._other_directory(decision.value, is_directory)
        if decision.choice == KEEP_DIRECTORY:
            self._warnings.append(message)
            return cwd
        raise ValidationError(
            f"`{decision.choice}` is no answer to a missing directory",
            fields=("choice",),
            hint=f"answer `{USE_DIRECTORY}` with a directory as the value, or `{KEEP_DIRECTORY}`",
        )

    def _other_directory(self, directory: str, is_directory: Callable[[str], bool]) -> str:
        if not is_directory(directory):
            raise ValidationError(f"the directory `{directory}` does not exist", fields=("cwd",))
        self._notes.append(f"the session continues in `{directory}`")
        return directory

    def restore_subsystem(
        self, subsystem: RestorableSubsystem[Any], states: Mapping[str, Any]
    ) -> None:
        """Restore one subsystem and compare it with its saved state; never raise its errors."""
        name = subsystem.name
        if name not in states:
            self._subsystems.append(SubsystemReport(name=name, status="absent"))
            return
        state = states[name]
        try:
            subsystem.restore(state, self._session)
            actual = _actual(subsystem, state, self._session)
        except Exception as error:  # noqa: BLE001 - one subsystem must not stop the others
            message = _reason(error)
            self._warnings.append(f"`{name}` could not be restored: {message}")
            self._subsystems.append(SubsystemReport(name=name, status="failed", error=message))
            return
        fields = compared(_named(name, state), _named(name, actual))
        is_equal = all(field.is_equal for field in fields)
        self._subsystems.append(
            SubsystemReport(name=name, status="restored" if is_equal else "changed", fields=fields)
        )

    def keep_unknown(self, states: Mapping[str, Any], order: tuple[str, ...]) -> None:
        """Report states of subsystems that are not registered; the next snapshot keeps them."""
        for name in states:
            if name not in order:
                self._notes.append(f"no subsystem `{name}` is registered; its state is kept")
                self._subsystems.append(SubsystemReport(name=name, status="unknown"))

    def check_model(
        self, is_valid: Callable[[str], bool] | None, default_model: str | None
    ) -> None:
        """Replace models that can no longer be used by the default one."""
        if is_valid is None:
            return
        state = self._state
        if state.model_override is not None and not is_valid(state.model_override):
            self._notes.append(f"the chosen model `{state.model_override}` is not available")
            state.model_override = None
        if state.model is not None and not is_valid(state.model):
            instead = "no model" if default_model is None else f"`{default_model}`"
            self._notes.append(f"the model `{state.model}` is not available; {instead} is used")
            state.model = default_model

    def check_git(self, recorded: object, git_head: Callable[[str], str | None]) -> None:
        """Warn if the repository has moved to another commit since."""
        if not isinstance(recorded, str) or not self._state.cwd:
            return
        now = git_head(self._state.cwd)
        if now is not None and now != recorded:
            self._warnings.append(
                f"the repository has moved since: it was at commit {recorded} and is at {now}"
            )

    def make_safe(self) -> None:
        """Let the agent read only, and ask before it acts, whatever was recorded."""
        self._state.approval_mode, self._state.sandbox_policy = SAFE_APPROVAL, SAFE_SANDBOX
        self._notes.append("permissions are the safe ones, not the recorded ones")

    def report(self, recorded: RecordedState) -> RestoreReport:
        """Return the report, and remember what the thread has stored."""
        state = msgspec.to_builtins(self._state)
        self._session.last_snapshot = {"subsystems": dict(recorded.subsystems)}
        return RestoreReport(
            thread_id=self._session.thread_id,
            schema_version=recorded.version,
            premises=compared(recorded.premises, state),
            subsystems=tuple(self._subsystems),
            messages=self._messages,
            skipped_messages=self._skipped,
            warnings=tuple(self._warnings),
            notes=tuple(self._notes),
        )


def corrupt_problem(thread_id: str, message: str) -> RestoreProblem:
    """Return the problem of a thread of which nothing can be continued."""
    return RestoreProblem(
        kind="corrupt", message=message, choices=(START_FRESH, EXPORT), subject=thread_id
    )


def _corrupt(thread_id: str, message: str) -> DecisionRequiredError:
    problem = corrupt_problem(thread_id, message)
    return DecisionRequiredError(
        message,
        kind=problem.kind,
        choices=problem.choices,
        hint="decide in `on_problem`, or try `amux store doctor --repair`",
    )


def _read_checked(session: LiveSession) -> tuple[list[Record], list[Problem]]:
    """Return the records of a thread and what is wrong with it; some backends do both at once."""
    log, thread_id = session.log, session.thread_id
    read_checked: Callable[[str], tuple[list[Record], list[Problem]]] | None = getattr(
        log, "read_checked", None
    )
    if read_checked is not None:
        return read_checked(thread_id)
    return list(log.read(thread_id)), log.verify(thread_id)


def _actual(subsystem: RestorableSubsystem[Any], state: Any, session: LiveSession) -> Any:
    """Return the values of a restored subsystem that correspond to its saved state."""
    actual: Callable[[Any, LiveSession], Any] | None = getattr(subsystem, "actual", None)
    found = subsystem.snapshot(session) if actual is None else actual(state, session)
    return msgspec.to_builtins(found)


def _named(name: str, state: Any) -> Mapping[str, Any]:
    """Return the values of a state by name; a state that is one value has the subsystem's name."""
    fields = as_mapping(state)
    return fields if fields or state == {} else {name: state}


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _head_of(directory: str) -> str | None:
    from amux.lifecycle.git_state import git_state

    found = git_state(directory)
    return None if found is None else found.sha


def _log_warning(message: str) -> None:
    import logging

    logging.getLogger("amux.lifecycle").warning("%s", message)
