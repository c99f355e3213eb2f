"""Rates from the genai-prices catalogue that is installed: dated, tiered, offline.

The library is slow to import, so only a lookup imports it that `shipped` cannot answer. A model the
catalogue does not name has no rates: nothing is guessed from a similar name.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING

from amux.pricing.names import candidates, cuts_number, is_claude
from amux.pricing.rates import BucketRates, Rates, RateTier, UsdPrices, bucket_rates
from amux.pricing.shipped import shipped_rates

if TYPE_CHECKING:
    from genai_prices import types

_COMPACT_DATE = re.compile(r"-(20\d\d)([01]\d)([0-3]\d)(?!\d)")
_PRICE_KEYS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
}


def find_rates(agent: str, model: str, day: date) -> tuple[Rates | None, bool]:
    """The catalogue's rates for a model as an agent names it; None when it knows no such model.

    And whether they are the same on every day.
    """
    if "genai_prices" not in sys.modules:  # a program may have put other prices into a loaded one
        shipped = shipped_rates(agent, model, day)
        if shipped is not None:
            return shipped
    return look_up_rates(agent, model, day)


def look_up_rates(agent: str, model: str, day: date) -> tuple[Rates | None, bool]:
    """The same, from the catalogue itself."""
    # Some prices depend on the hour; at noon UTC the regular ones hold.
    moment = datetime.combine(day, time(12), UTC)
    for provider, ref in candidates(agent, model):
        found = _look_up(provider, ref, moment)
        if found is not None:
            lasting = not isinstance(found.model.prices, list)
            return _to_rates(found, ref, day), lasting
    return None, True


def _look_up(provider: str | None, ref: str, moment: datetime) -> types.PriceCalculation | None:
    from genai_prices import Usage, calc_price

    try:
        found = calc_price(
            Usage(input_tokens=0, output_tokens=0),
            ref,
            provider_id=provider,
            genai_request_timestamp=moment,
        )
    except LookupError:
        return None
    return found if _names(found.model.match, ref) else None


def _names(clause: types.MatchLogic, ref: str) -> bool:
    """Whether a name fits without cutting a number: `opus-4-1` is not the name of `opus-4-10`."""
    dashed = _COMPACT_DATE.sub(r"-\1-\2-\3", ref)
    return _fits(clause, ref) or _fits(clause, dashed)


def _fits(clause: types.MatchLogic, ref: str) -> bool:
    from genai_prices import types

    match clause:
        case types.ClauseOr():
            return any(_fits(inner, ref) for inner in clause.or_)
        case types.ClauseAnd():
            return all(_fits(inner, ref) for inner in clause.and_)
        case types.ClauseStartsWith():
            return clause.is_match(ref) and not cuts_number(ref, len(clause.starts_with))
        case types.ClauseContains():
            at = ref.find(clause.contains.lower())
            return at >= 0 and not cuts_number(ref, at + len(clause.contains))
        case _:
            return clause.is_match(ref)


def _to_rates(found: types.PriceCalculation, ref: str, day: date) -> Rates | None:
    import genai_prices

    claude = is_claude(found.provider.id, ref)
    priced = rates_by_token(found.model_price, claude=claude)
    if priced is None:
        return None
    rates, tiers = priced
    return Rates(
        **rates,
        model_ref=found.model.id,
        provider=found.provider.id,
        origin=f"genai-prices {genai_prices.__version__}",
        as_of=day,
        tiers=tiers,
    )


def rates_by_token(
    price: types.ModelPrice, *, claude: bool
) -> tuple[BucketRates, tuple[RateTier, ...]] | None:
    """Rates and those of longer contexts; None where the image, the hour, the request is priced."""
    published = _published(price)
    if not {"input", "output"} <= published.keys():
        return None
    starts = sorted({tier.start for price in published.values() for tier in _tiers(price)})
    tiers = tuple(
        RateTier(above=start, **bucket_rates(_prices_at(published, start + 1), claude=claude))
        for start in starts
    )
    return bucket_rates(_prices_at(published, 0), claude=claude), tiers


def _published(price: types.ModelPrice) -> dict[str, Decimal | types.TieredPrices]:
    found = {bucket: getattr(price, key) for bucket, key in _PRICE_KEYS.items()}
    return {bucket: value for bucket, value in found.items() if value is not None}


def _prices_at(published: dict[str, Decimal | types.TieredPrices], input_tokens: int) -> UsdPrices:
    return UsdPrices(**{key: _price_at(price, input_tokens) for key, price in published.items()})


def _price_at(price: Decimal | types.TieredPrices, input_tokens: int) -> Decimal:
    if isinstance(price, Decimal):
        return price
    reached = [tier.price for tier in _tiers(price) if input_tokens > tier.start]
    return reached[-1] if reached else price.base


def _tiers(price: Decimal | types.TieredPrices) -> list[types.Tier]:
    return [] if isinstance(price, Decimal) else price.tiers
