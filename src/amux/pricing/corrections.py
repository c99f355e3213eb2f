"""Changes of prices that a provider published and that the catalogue lacks.

The catalogue has the names `deepseek-chat` and `deepseek-reasoner` with the prices of early 2025.
DeepSeek kept the names and changed what they cost. An entry is dropped when the catalogue has the
change; a test notices that.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Final, NamedTuple

from amux.pricing.rates import UsdPrices


class Correction(NamedTuple):
    """The prices of a model from a day on, and where they were published."""

    since: date
    prices: UsdPrices
    source: str


def _usd(input: str, cache_read: str, output: str) -> UsdPrices:
    return UsdPrices(input=Decimal(input), cache_read=Decimal(cache_read), output=Decimal(output))


_PAGE: Final = "api-docs.deepseek.com/quick_start/pricing"
_DEEPSEEK: Final = (
    # The change took effect at 16:00 UTC on the day before; prices here are those of whole days.
    Correction(date(2025, 9, 6), _usd("0.56", "0.07", "1.68"), f"{_PAGE}, 2025-09-05"),
    Correction(date(2025, 9, 29), _usd("0.28", "0.028", "0.42"), f"{_PAGE}, 2025-09-29"),
    # Both names stood for deepseek-v4-flash until they were retired on 2026-07-24.
    Correction(date(2026, 4, 24), _usd("0.14", "0.0028", "0.28"), f"{_PAGE}, 2026-04-24"),
)

CORRECTIONS: Final = {
    ("deepseek", "deepseek-chat"): _DEEPSEEK,
    ("deepseek", "deepseek-reasoner"): _DEEPSEEK,
}
"""By provider and the exact name of the model, oldest first."""


def corrected(provider: str, name: str, day: date) -> Correction | None:
    """Return the correction in force on a day; None if the catalogue is right."""
    listed = CORRECTIONS.get((provider, name), ())
    return next((each for each in reversed(listed) if each.since <= day), None)
