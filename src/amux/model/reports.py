"""The report types, which the operations of a client return besides sessions.

A report holds its data, counts of omitted data, and the problems of reading.
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
    """A list of sessions, and the counts of omitted ones."""

    sessions: tuple[SessionSummary, ...]
    hidden_children: int = 0
    hidden_archived: int = 0
    truncated: int = 0
    problems: tuple[Problem, ...] = ()


class SearchReport(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions that match a query, best first, and notes about the query.

    `did_you_mean` is the query with unknown words replaced by similar ones. If that query has hits,
    it is also `corrected_to`, and `sessions` are its hits. `truncated` is the number of sessions
    beyond the limit.
    """

    sessions: tuple[SessionSummary, ...]
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    did_you_mean: str | None = None
    corrected_to: str | None = None
    truncated: int = 0


class BlockReport(NamedTuple):
    """Windows of spending, and the problems of reading."""

    blocks: tuple[CostBlock, ...]
    problems: tuple[Problem, ...]


FileStatus = Literal["session", "part", "no-session", "bystander", "unread", "link", "unknown"]


class FileReport(Model, frozen=True, kw_only=True):
    """One file and its classification."""

    path: str
    status: FileStatus
    what: str
    bytes: int


class NextLoss(Model, frozen=True, kw_only=True):
    """The time at which the agent will delete the oldest session, and the reason."""

    at: datetime
    path: str
    reason: str


class RootReport(Model, frozen=True, kw_only=True):
    """All files below one root."""

    agent: str
    root: str
    counts: dict[str, int]
    files: tuple[FileReport, ...]
    problems: tuple[Problem, ...] = ()
    next_loss: NextLoss | None = None


class UnknownType(Model, frozen=True, kw_only=True):
    """A record type that the adapter does not know, and the number of such records."""

    name: str  # or `<name>` if it looks like data
    count: int


class UnknownField(Model, frozen=True, kw_only=True):
    """A field of a known record type that amux has neither seen nor reads."""

    record_type: str
    name: str  # or `<name>` if it looks like data
    json_types: tuple[str, ...]  # of a column: its declared type
    count: int


class UnknownFile(Model, frozen=True, kw_only=True):
    """Files that amux does not know, or cannot read, as a pattern without names and ids."""

    pattern: str
    why: str  # `unknown`, or the code of the problem
    sizes: tuple[str, ...]  # orders of magnitude
    count: int


class UnknownReport(Model, frozen=True, kw_only=True):
    """Everything of one agent that amux does not know; it contains no text of a session."""

    agent: str
    versions: tuple[str, ...] = ()  # of the agent, as its sessions record them
    fields_compared: bool
    types: tuple[UnknownType, ...] = ()
    fields: tuple[UnknownField, ...] = ()
    files: tuple[UnknownFile, ...] = ()


class ExplainedCall(Model, frozen=True, kw_only=True):
    """One record of a billed call, counted in this session or not."""

    session_id: str
    call: Call
    counted: bool
    reason: str | None = None  # why it is not counted here
    counted_in: str | None = None  # unified id of the session that counts it instead
    price_source: str | None = None  # native, or the catalogue
    price_entry: str | None = None  # provider and model in the catalogue
    price_note: str | None = None  # why that entry, if it has another name or provider
    rates: dict[str, float] | None = None  # USD per million tokens, by bucket
    usd: float | None = None  # its share of the session's cost
    uncounted_usd: float | None = None  # the cost of a copied call; not part of any sum


class CostExplanation(Model, frozen=True, kw_only=True):
    """The cost of a session, call by call."""

    unified_id: str
    title: str
    cost: CostRecord | None = None
    calls: tuple[ExplainedCall, ...]
    repeats: int  # further records of counted calls, which are ignored
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
    """The overview that `amux` prints without a command."""

    agents: tuple[AgentStatus, ...]
    recent: tuple[SessionSummary, ...]
    week: CostSummary
    problems: tuple[Problem, ...] = ()


class IndexedSources(Model, frozen=True, kw_only=True):
    """The contents of the index for one agent."""

    agent: str
    sources: int
    kept: int
    stale: int  # new or changed sources
    stale_bytes: int
    sessions: int
    subagents: int  # not among the sessions
    texts: int | None = None  # sources whose texts are stored and up to date
    """None if the agent has an index of its own, or if the text index cannot be opened."""


class IndexerStatus(Model, frozen=True, kw_only=True):
    """The state of the running background indexer, or the result of the last one.

    `pid` is None unless one is running. An indexer that was killed has no end.
    """

    state: Literal["running", "complete", "time_limit", "failed", "killed"]
    pid: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    reason: str | None = None  # why it failed


class IndexStatus(Model, frozen=True, kw_only=True):
    """The state of the index; `path` is None if there is no index."""

    path: str | None = None
    bytes: int
    text_bytes: int
    agents: tuple[IndexedSources, ...] = ()
    texts_have_tools: bool  # whether texts include the input and output of tools
    trouble: str | None = None  # why the index cannot be used now; sources are read instead
    text_trouble: str | None = None  # why the text index cannot be used now
    indexer: IndexerStatus | None = None  # None if no background indexer has run for this index

    def insist(self) -> None:
        """Raise an AmuxError if the index cannot be used."""
        if self.trouble is not None:
            raise unusable_index(self.trouble)


class IndexMismatch(Model, frozen=True, kw_only=True):
    """A source that differs from its facts in the index."""

    agent: str
    path: str
    fields: tuple[str, ...]


class IndexCheck(Model, frozen=True, kw_only=True):
    """The result of a check of the index."""

    checked: int
    mismatches: tuple[IndexMismatch, ...] = ()


def unusable_index(reason: str) -> AmuxError:
    """Return the error for a command that needs the index itself."""
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
