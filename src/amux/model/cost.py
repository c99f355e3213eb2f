"""Money and tokens at the JSON edge: floats in USD here, integer nano-USD everywhere else."""

from __future__ import annotations

from typing import Literal

from amux.model.base import Model

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
    """One group of a cost summary. `key` is `keys` as one text: see `sessions/grouping.py`."""

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
