"""Counts of resumes in a store: how often they brought back everything, and how often not.

The counts are one stored value, so that all processes and machines that share a store count
together. Counting never stops a resume.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from amux.errors import ConflictError, StoreError
from amux.rollout.log import ThreadLog

ResumeOutcome = Literal["complete", "partial", "undecided", "failed", "cleared_soon"]

_KEY: Final = ("amux", "resume-counts")
_TRIES: Final = 20  # while other processes count at the same moment
_ABSENT: Final = ""


class ResumeCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The number of resumes by their outcome.

    `complete` resumes brought back everything, `partial` ones did not. `undecided` ones ended with
    a question to the user, `failed` ones with an error. `cleared_soon` counts conversations that
    were emptied soon after a resume, which is a sign that the user missed something.
    """

    complete: int = 0
    partial: int = 0
    undecided: int = 0
    failed: int = 0
    cleared_soon: int = 0

    @property
    def attempts(self) -> int:
        """The number of resumes that were tried."""
        return self.complete + self.partial + self.undecided + self.failed

    @property
    def success_rate(self) -> float | None:
        """The part of the attempts that brought back everything; None if there was none."""
        return self.complete / self.attempts if self.attempts else None


def read_resume_counts(log: ThreadLog) -> ResumeCounts:
    """Return the counts of a store; all are zero if nothing was counted."""
    stored = log.get_value(_KEY)
    return ResumeCounts() if stored is None else _decoded(stored.data)


def count_resume(log: ThreadLog, outcome: ResumeOutcome) -> None:
    """Add one to a count; if the store cannot be written, nothing is counted."""
    for _ in range(_TRIES):
        try:
            stored = log.get_value(_KEY)
            counts = ResumeCounts() if stored is None else _decoded(stored.data)
            added = msgspec.structs.replace(counts, **{outcome: getattr(counts, outcome) + 1})
            expect = _ABSENT if stored is None else stored.version
            log.put_value(_KEY, msgspec.json.encode(added), expect=expect)
        except ConflictError:
            continue
        except StoreError:
            return
        return


def _decoded(data: bytes) -> ResumeCounts:
    try:
        return msgspec.json.decode(data, type=ResumeCounts)
    except msgspec.DecodeError:
        return ResumeCounts()  # the value is damaged: counting begins anew
