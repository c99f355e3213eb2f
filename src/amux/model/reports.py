"""The report types: what the operations of a client return besides sessions.

A report carries its data, what was left out of it, and the problems met on the way.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from amux.errors import AmuxError, ErrorCode
from amux.model.base import Model
from amux.model.cost import CostBlock, CostRecord, CostSummary
from amux.model.problems import Problem
from amux.model.session import SessionSummary
from amux.model.usage import Call

Persistence = Literal["file", "sqlite", "none", "in-memory"]


class ListReport(msgspec.Struct, frozen=True, kw_only=True):
    """A list, and what it leaves out."""

    sessions: tuple[SessionSummary, ...]
    hidden_children: int = 0
    hidden_archived: int = 0
    truncated: int = 0
    problems: tuple[Problem, ...] = ()


class SearchReport(msgspec.Struct, frozen=True, kw_only=True):
    """Hits, best first, what could not be read on the way, and what became of the query.

    `did_you_mean` is the query with words that occur in place of those that do not. If it has hits,
    it is also `corrected_to`, and the sessions are its. `truncated` is how many the limit cut off.
    """

    sessions: tuple[SessionSummary, ...]
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    did_you_mean: str | None = None
    corrected_to: str | None = None
    truncated: int = 0


class BlockReport(NamedTuple):
    """Blocks, and what could not be read on the way."""

    blocks: tuple[CostBlock, ...]
    problems: tuple[Problem, ...]


FileStatus = Literal["session", "part", "no-session", "bystander", "unread", "link", "unknown"]


class FileReport(Model, frozen=True, kw_only=True):
    """One file and what it is."""

    path: str
    status: FileStatus
    what: str
    bytes: int


class NextLoss(Model, frozen=True, kw_only=True):
    """When the agent will delete the oldest session, and why."""

    at: datetime
    path: str
    reason: str


class RootReport(Model, frozen=True, kw_only=True):
    """Everything below one root."""

    agent: str
    root: str
    counts: dict[str, int]
    files: tuple[FileReport, ...]
    problems: tuple[Problem, ...] = ()
    next_loss: NextLoss | None = None


class ExplainedCall(Model, frozen=True, kw_only=True):
    """One record of a billed call: counted here, or why not."""

    session_id: str
    call: Call
    counted: bool
    reason: str | None = None  # why it is not counted here
    counted_in: str | None = None  # unified id of the session that counts it instead
    price_source: str | None = None  # native, or the catalogue
    rates: dict[str, float] | None = None  # USD per million tokens, by bucket
    usd: float | None = None  # its share of the session's cost
    uncounted_usd: float | None = None  # what a copy's call costs by itself; no part of any sum


class CostExplanation(Model, frozen=True, kw_only=True):
    """A session's cost, taken apart."""

    unified_id: str
    title: str
    cost: CostRecord | None = None
    calls: tuple[ExplainedCall, ...]
    repeats: int  # further records of counted calls that were passed over
    incomplete: tuple[str, ...] = ()


class AgentStatus(Model, frozen=True, kw_only=True):
    """One agent on this machine."""

    name: str
    label: str
    tier: str
    session_persistence: Persistence
    can_resume: bool
    can_fork: bool
    records_usage: bool
    roots: tuple[str, ...]
    session_count: int
    bytes: int
    oldest: datetime | None = None
    newest: datetime | None = None
    version: str | None = None  # last seen in its sessions
    evidence: str = ""


class Overview(Model, frozen=True, kw_only=True):
    """What `amux` alone shows."""

    agents: tuple[AgentStatus, ...]
    recent: tuple[SessionSummary, ...]
    week: CostSummary
    problems: tuple[Problem, ...] = ()


class IndexedSources(Model, frozen=True, kw_only=True):
    """What the index holds of one agent."""

    agent: str
    sources: int
    kept: int
    stale: int  # of which are new or have changed
    stale_bytes: int
    sessions: int
    subagents: int  # not among the sessions
    texts: int | None = None  # sources whose texts are kept and current
    """None: an index of the agent's own finds everything, or that of the texts cannot be opened."""


class IndexStatus(Model, frozen=True, kw_only=True):
    """The index and how far it is behind. Without a path there is none."""

    path: str | None = None
    bytes: int
    text_bytes: int
    agents: tuple[IndexedSources, ...] = ()
    texts_have_tools: bool  # whether texts include what tools were given and said
    trouble: str | None = None  # why it cannot be used now; sources are read instead
    text_trouble: str | None = None  # why that of the texts cannot be used now

    def insist(self) -> None:
        """Raise an AmuxError if it cannot be used."""
        if self.trouble is not None:
            raise unusable_index(self.trouble)


class IndexMismatch(Model, frozen=True, kw_only=True):
    """A source of which the index says something else than the source itself."""

    agent: str
    path: str
    fields: tuple[str, ...]


class IndexCheck(Model, frozen=True, kw_only=True):
    """What a check has found."""

    checked: int
    mismatches: tuple[IndexMismatch, ...] = ()


def unusable_index(reason: str) -> AmuxError:
    """What to say to who asked for the index itself."""
    is_in_use = "locked" in reason or "busy" in reason
    cause = (
        "another program is using it: try again"
        if is_in_use
        else "its folder must be open to writing and have room; `AMUX_CACHE_DIR` names another"
    )
    return AmuxError(
        f"the index cannot be used: {reason}",
        code=ErrorCode.STORE_ERROR,
        hint=f"{cause}; other commands read the sources instead",
        recoverable=is_in_use,
    )


class InstalledAgent(Model, frozen=True, kw_only=True):
    """An agent on this machine; if `program` is None, only its Python package is installed."""

    agent: str
    program: str | None = None
    version: str | None = None
