"""Money and tokens at the JSON edge: floats in USD here, integer nano-USD everywhere else."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from amux.model.base import Model
from amux.model.problems import Problem

CostSource = Literal["native", "run-index", "estimate"]


class CostRecord(Model, frozen=True, kw_only=True):
    """Cost of a message or session. `incomplete` lists why it is a lower bound; absent = exact."""

    total_usd: float
    input_tokens: int
    output_tokens: int
    thinking_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    source: CostSource | None = None
    incomplete: tuple[str, ...] = ()


class CostBreakdown(Model, frozen=True, kw_only=True, omit_defaults=False):
    """One group of a cost summary. `key` is the parts of `keys` as one text, joined by ` | `."""

    key: str
    total_usd: float
    input_tokens: int
    output_tokens: int
    thinking_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    session_count: int
    incomplete: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()  # one per grouping, in the order they were asked for


class UnpricedModel(Model, frozen=True, kw_only=True):
    """A model without a known price: its tokens are counted, its cost is not."""

    model: str
    input_tokens: int
    output_tokens: int
    calls: int


class CostSummary(Model, frozen=True, kw_only=True):
    """Cost over many sessions; every billed call is in it once."""

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
    problems: tuple[Problem, ...] = ()  # sources that may hold more, and annotations amiss


class BurnRate(Model, frozen=True, kw_only=True):
    """How fast a block was used up, between its first and its last call."""

    tokens_per_minute: float
    usd_per_hour: float


class BlockProjection(Model, frozen=True, kw_only=True):
    """What a block that still runs comes to at its end if it goes on like this."""

    remaining_minutes: int
    total_tokens: int
    total_usd: float


class CostBlock(Model, frozen=True, kw_only=True):
    """The calls of one agent within one window of hours; every billed call is in one block."""

    agent: str
    start: datetime  # the full hour before the first call
    end: datetime
    active: bool  # whether the window is open now
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
    burn_rate: BurnRate | None = None  # none for calls within one minute
    projection: BlockProjection | None = None  # of the active block
    incomplete: tuple[str, ...] = ()

    @property
    def total_tokens(self) -> int:
        """All billed tokens, each once."""
        prompt = self.input_tokens + self.cached_tokens + self.cache_write_tokens
        return prompt + self.output_tokens
