"""The price of one model on one day, and the cost of one call at that price. Pure.

Rates are integers, femto-USD per token: a price of $3 per million tokens is 3_000_000_000. So sums
are exact and every call is rounded once, to whole nano-USD. A model may be dearer for long
contexts; then the tier the whole input of the call falls into prices all of its tokens.
"""

from __future__ import annotations

from datetime import date
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TypedDict

import msgspec

from amux.model.base import Model
from amux.model.usage import Tokens

FEMTO_PER_NANO = 1_000_000
_HALF_NANO = FEMTO_PER_NANO // 2
_FEMTO_PER_USD_PER_MILLION = 1_000_000_000

# Anthropic bills prompt caching in multiples of the input price.
_CLAUDE_CACHE_READ = Decimal("0.1")
_CLAUDE_CACHE_WRITE = Decimal("1.25")
_CLAUDE_CACHE_WRITE_1H = Decimal(2)


class UsdPrices(msgspec.Struct, frozen=True, kw_only=True):
    """Prices as published: USD per million tokens. None: not priced apart."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None
    cache_write_1h: Decimal | None = None


class TokenRates(Model, frozen=True, kw_only=True):
    """Femto-USD per token of each bucket."""

    input: int
    cache_read: int
    cache_write: int
    cache_write_1h: int
    output: int


class BucketRates(TypedDict):
    """The fields of `TokenRates`, for building its subclasses."""

    input: int
    cache_read: int
    cache_write: int
    cache_write_1h: int
    output: int


class RateTier(TokenRates, frozen=True, kw_only=True):
    """The rates of a call whose input is larger than `above` tokens, cached ones included."""

    above: int


class Rates(TokenRates, frozen=True, kw_only=True):
    """The rates of a model on a day; `tiers` in ascending order. `origin` says who knows them."""

    model_ref: str
    provider: str
    origin: str
    as_of: date
    tiers: tuple[RateTier, ...] = ()

    def at(self, input_tokens: int) -> TokenRates:
        """The rates of a call with that much input in total."""
        for tier in reversed(self.tiers):
            if input_tokens > tier.above:
                return tier
        return self


def cost_nusd(tokens: Tokens, rates: Rates) -> int:
    """What one call costs in nano-USD, rounded once. Thinking is part of output: not charged."""
    fresh, read, written = tokens.input, tokens.cache_read, tokens.cache_write
    prompt = fresh + read + written
    rate = rates.at(prompt) if rates.tiers and prompt > rates.tiers[0].above else rates
    femto = fresh * rate.input + read * rate.cache_read + tokens.output * rate.output
    if written:
        femto += written * rate.cache_write
        if tokens.cache_write_1h:
            for_an_hour = min(tokens.cache_write_1h, written)
            femto += for_an_hour * (rate.cache_write_1h - rate.cache_write)
    return (femto + _HALF_NANO) // FEMTO_PER_NANO


def bucket_rates(prices: UsdPrices, *, claude: bool) -> BucketRates:
    """The rate of every bucket; what is not priced apart is billed as input.

    Except with Claude models, where the price of caching follows from the input price.
    """
    read = prices.cache_read
    write = prices.cache_write
    write_1h = prices.cache_write_1h
    if claude:
        read = _else(read, prices.input * _CLAUDE_CACHE_READ)
        write = _else(write, prices.input * _CLAUDE_CACHE_WRITE)
        write_1h = _else(write_1h, prices.input * _CLAUDE_CACHE_WRITE_1H)
    write = _else(write, prices.input)
    return {
        "input": _femto(prices.input),
        "cache_read": _femto(_else(read, prices.input)),
        "cache_write": _femto(write),
        "cache_write_1h": _femto(_else(write_1h, write)),
        "output": _femto(prices.output),
    }


def usd_per_million(femto: int) -> float:
    """The published form of a rate."""
    return femto / _FEMTO_PER_USD_PER_MILLION


def _else(price: Decimal | None, default: Decimal) -> Decimal:
    return default if price is None else price


def _femto(price: Decimal) -> int:
    # Published prices have few decimals; more than nine are noise of a conversion from floats.
    return int((price * _FEMTO_PER_USD_PER_MILLION).quantize(Decimal(1), rounding=ROUND_HALF_EVEN))
