"""The reports of the session store."""

from __future__ import annotations

from typing import Literal

import msgspec

from amux.model.problems import Problem
from amux.rollout.threads import ThreadSummary
from amux.store.resume_counts import ResumeCounts

ChildKind = Literal["fork", "continuation", "subagent"]


class Child(msgspec.Struct, frozen=True, kw_only=True):
    """A thread that comes from another one, and how."""

    thread_id: str
    kind: ChildKind
    parent: str
    title: str | None = None


class Lineage(msgspec.Struct, frozen=True, kw_only=True):
    """The relatives of a thread: ancestors from the nearest on, descendants level by level."""

    thread_id: str
    ancestors: tuple[Child, ...] = ()
    descendants: tuple[Child, ...] = ()


class PruneReport(msgspec.Struct, frozen=True, kw_only=True):
    """The threads that a prune deletes; with `dry_run` nothing was deleted."""

    threads: tuple[ThreadSummary, ...]
    deleted: int
    dry_run: bool


class EraseReport(msgspec.Struct, frozen=True, kw_only=True):
    """The threads, values and blobs of a user that an erasure removes; see `dry_run`."""

    threads: tuple[ThreadSummary, ...]
    values: tuple[tuple[str, ...], ...] = ()
    blobs: int = 0
    dry_run: bool = False


class ModelUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The threads that last used a model, and their tokens."""

    model: str | None
    threads: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: float


class StoreStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts over all threads of a store."""

    threads: int
    archived: int
    messages: int
    turns: int
    models: tuple[ModelUsage, ...]
    top: tuple[ThreadSummary, ...]
    resumes: ResumeCounts = ResumeCounts()


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an import: new threads, ids that existed, and records that were unusable."""

    imported: tuple[str, ...]
    skipped: tuple[str, ...]
    problems: tuple[Problem, ...] = ()


class RebuildReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of rebuilding the index."""

    threads: int
    messages: int
    problems: tuple[Problem, ...] = ()


class RepairReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of repairing a thread: its whole records, and where the damaged original lies.

    `damaged` is None if nothing was wrong; nothing was changed then.
    """

    thread_id: str
    records: int
    problems: tuple[Problem, ...] = ()
    damaged: str | None = None


class OptimizeReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of optimising a store: the size of its index, and the blobs that were removed."""

    bytes_before: int
    bytes_after: int
    blobs_removed: int


class ThreadReport(msgspec.Struct, frozen=True, kw_only=True):
    """The problems of one thread."""

    thread_id: str
    problems: tuple[Problem, ...]


class DoctorReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of reading threads completely. Threads without problems are only counted."""

    checked: int
    threads: tuple[ThreadReport, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def is_healthy(self) -> bool:
        """Return whether nothing is wrong."""
        return not self.threads and not self.problems
