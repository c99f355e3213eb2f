"""The report of a restore: what was recorded, what is there now, and what must be decided."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

Status = Literal["restored", "changed", "failed", "absent", "unknown"]
"""The outcome for one subsystem.

"changed": it is there, but not as it was recorded. "absent": no state was recorded. "unknown": a
state was recorded, but nothing is registered under that name; the state is kept.
"""

ProblemKind = Literal["cwd_missing", "corrupt"]

USE_DIRECTORY = "use_directory"
KEEP_DIRECTORY = "keep"
START_FRESH = "start_fresh"
EXPORT = "export"


class RestoreProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A situation that amux does not decide: a sentence about it, and the ways to go on.

    "cwd_missing": `use_directory` with another directory as the value, or `keep` the missing one.
    "corrupt": `start_fresh`, or `export` the messages that can be read to the file that the value
    names and then start afresh.
    """

    kind: ProblemKind
    message: str
    choices: tuple[str, ...]
    subject: str  # the directory, or the id of the thread


class Decision(msgspec.Struct, frozen=True):
    """The answer to a problem: one of its choices, with a value if the choice needs one."""

    choice: str
    value: str | None = None


OnProblem = Callable[[RestoreProblem], Decision]


class FieldCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One value: as it was recorded, and as it is after the restore."""

    name: str
    expected: Any
    actual: Any

    @property
    def is_equal(self) -> bool:
        """Whether the recorded value is there."""
        return bool(self.expected == self.actual)


class SubsystemReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for one subsystem; `error` says why it failed."""

    name: str
    status: Status
    fields: tuple[FieldCheck, ...] = ()
    error: str | None = None


class RestoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a restore, in the order in which it was done.

    `premises` are the values that a conversation silently relies on. `warnings` are what the user
    should know, `notes` what was decided on the way. `skipped_messages` counts records that cannot
    be read, which the conversation does not have. `undecided` is only set by an examination: a
    restore raises `DecisionRequiredError` instead.
    """

    thread_id: str
    schema_version: int | None = None  # of the snapshot; None if there is none
    premises: tuple[FieldCheck, ...] = ()
    subsystems: tuple[SubsystemReport, ...] = ()
    messages: int = 0
    skipped_messages: int = 0
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    undecided: tuple[RestoreProblem, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether everything that was recorded is there again."""
        return not (self.differences or self.failed or self.skipped_messages or self.undecided)

    @property
    def differences(self) -> tuple[FieldCheck, ...]:
        """The values that are not as they were recorded."""
        inner = (field for each in self.subsystems for field in each.fields)
        return tuple(field for field in (*self.premises, *inner) if not field.is_equal)

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the subsystems that could not be restored."""
        return tuple(each.name for each in self.subsystems if each.status == "failed")

    def subsystem(self, name: str) -> SubsystemReport:
        """Return the report of one subsystem; raise `KeyError` if there is none."""
        for each in self.subsystems:
            if each.name == name:
                return each
        raise KeyError(name)


def compared(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> tuple[FieldCheck, ...]:
    """Return a check for every recorded value, in the order in which they were recorded."""
    return tuple(
        FieldCheck(name=name, expected=value, actual=actual.get(name))
        for name, value in expected.items()
    )
