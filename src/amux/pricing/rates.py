"""The rates of one model on one day, and the cost of one call at these rates.

Rates are integers in femto-USD per token: a price of $3 per million tokens is 3_000_000_000. Sums
are therefore exact, and every call is rounded once, to whole nano-USD. A model may cost more for
long contexts: the tier that applies to the total input of a call prices all of its tokens.
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
    """Published prices in USD per million tokens. None: there is no separate price."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None
    cache_write_1h: Decimal | None = None


class TokenRates(Model, frozen=True, kw_only=True):
    """The rates of each kind of token in femto-USD per token."""

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
    """The rates of a model on a day. `tiers` are in ascending order; `origin` names the source.

    `note` says why another entry than that of the recorded name and provider was used; it is empty
    if the catalogue has that entry.
    """

    model_ref: str
    provider: str
    origin: str
    as_of: date
    tiers: tuple[RateTier, ...] = ()
    note: str = ""

    def at(self, input_tokens: int) -> TokenRates:
        """Return the rates of a call with the given total input."""
        for tier in reversed(self.tiers):
            if input_tokens > tier.above:
                return tier
        return self


def cost_nusd(tokens: Tokens, rates: Rates) -> int:
    """Return the cost of one call in nano-USD. Thinking is part of the output."""
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
    """Return the rate of every kind of token. Without a separate price it is that of input.

    For Claude models, missing prices of cached tokens are multiples of the input price.
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
    """Return a rate in USD per million tokens."""
    return femto / _FEMTO_PER_USD_PER_MILLION


def _else(price: Decimal | None, default: Decimal) -> Decimal:
    return default if price is None else price


def _femto(price: Decimal) -> int:
    # Published prices have few decimals; more than nine come from a conversion of floats.
    return int((price * _FEMTO_PER_USD_PER_MILLION).quantize(Decimal(1), rounding=ROUND_HALF_EVEN))
