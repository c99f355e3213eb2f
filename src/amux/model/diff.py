"""The structural difference of two sessions, as defined by the specification."""

from __future__ import annotations

from typing import Literal

from amux.model.base import Model
from amux.model.message import SessionMessage

OperationType = Literal["addition", "removal", "modification", "unchanged"]


class DiffSide(Model, frozen=True, kw_only=True):
    """One of the two compared sessions."""

    agent: str
    session_id: str
    unified_id: str


class DiffOperation(Model, frozen=True, kw_only=True):
    """One step of the alignment. Indexes count from zero."""

    type: OperationType
    index_a: int | None = None
    index_b: int | None = None
    message_a: SessionMessage | None = None
    message_b: SessionMessage | None = None


class DiffStats(Model, frozen=True, kw_only=True):
    """The number of operations of each type."""

    removals: int
    additions: int
    modifications: int
    unchanged: int


class SessionDiff(Model, frozen=True, kw_only=True):
    """The operations in order, and their counts."""

    a: DiffSide
    b: DiffSide
    operations: tuple[DiffOperation, ...]
    stats: DiffStats
