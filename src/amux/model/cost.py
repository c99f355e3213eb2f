"""Costs and token counts as they are written to JSON: USD as floats. Other code uses nano-USD."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from amux.model.base import Model
from amux.model.problems import Problem
from amux.model.usage import Purpose

CostSource = Literal["native", "run-index", "estimate"]


class CostRecord(Model, frozen=True, kw_only=True):
    """The cost of a message or session. `incomplete` says why it is not exact; empty: it is."""

    total_usd: float
    input_tokens: int
    output_tokens: int
    thinking_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    source: CostSource | None = None
    incomplete: tuple[str, ...] = ()


class CostBreakdown(Model, frozen=True, kw_only=True, omit_defaults=False):
    """One group of a cost summary. `key` joins the parts of `keys` with ` | `."""

    key: str
    total_usd: float
    input_tokens: int
    output_tokens: int
    thinking_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    session_count: int
    incomplete: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()  # one per grouping, in the order of `group_by`
    sessions_without_calls: int = 0  # part of `session_count`


class UnpricedModel(Model, frozen=True, kw_only=True):
    """A model without a price: its tokens are counted, its cost is not."""

    model: str
    input_tokens: int
    output_tokens: int
    calls: int


class UnattributedCalls(Model, frozen=True, kw_only=True):
    """Billed calls of an agent that belong to no session: what they were for, and their number."""

    agent: str
    purpose: Purpose
    calls: int


class CostSummary(Model, frozen=True, kw_only=True):
    """The cost of many sessions. Every billed call is counted once."""

    total_usd: float
    input_tokens: int
    output_tokens: int
    thinking_tokens: int
    cached_tokens: int
    session_count: int
    run_count: int
    cache_write_tokens: int = 0
    breakdowns: dict[str, CostBreakdown] | None = None
    incomplete: tuple[str, ...] = ()
    unpriced: tuple[UnpricedModel, ...] = ()
    unattributed: CostRecord | None = None  # billed calls that belong to no session
    unattributed_calls: tuple[UnattributedCalls, ...] = ()
    sessions_without_calls: int = 0  # part of `session_count`
    problems: tuple[Problem, ...] = ()  # of unreadable sources and of the annotation file


class BurnRate(Model, frozen=True, kw_only=True):
    """The usage of a block per minute and hour, between its first and its last call."""

    tokens_per_minute: float
    usd_per_hour: float


class BlockProjection(Model, frozen=True, kw_only=True):
    """The totals of an active block at its end if usage continues at the present rate."""

    remaining_minutes: int
    total_tokens: int
    total_usd: float


class CostBlock(Model, frozen=True, kw_only=True):
    """The calls of one agent within a window of hours. Every billed call is in one block."""

    agent: str
    start: datetime  # the full hour before the first call
    end: datetime
    active: bool  # whether the window includes the present
    first_at: datetime
    last_at: datetime
    call_count: int
    session_count: int
    total_usd: float
    input_tokens: int
    output_tokens: int
    thinking_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    models: tuple[str, ...]
    burn_rate: BurnRate | None = None  # None if all calls are within one minute
    projection: BlockProjection | None = None  # only of the active block
    incomplete: tuple[str, ...] = ()

    @property
    def total_tokens(self) -> int:
        """Return the sum of all billed tokens."""
        prompt = self.input_tokens + self.cached_tokens + self.cache_write_tokens
        return prompt + self.output_tokens
