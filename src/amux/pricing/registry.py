"""`ModelRegistry`: what models cost. A person's own prices first, then the catalogue.

An unknown model has no price (None), never that of a similar one; its estimate is 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

from amux.config import PriceSettings, read_prices
from amux.model.base import Model
from amux.model.usage import NANO, Tokens
from amux.pricing.catalogue import AGENT_PROVIDERS, find_rates, is_claude, plain_name
from amux.pricing.rates import Rates, UsdPrices, bucket_rates, cost_nusd, usd_per_million

_DATE_SUFFIX = re.compile(r"[-@]\d{4}-?\d{2}-?\d{2}$")


class ModelPrice(Model, frozen=True, kw_only=True):
    """The price of a model in USD per million tokens, before any surcharge for long contexts."""

    model: str
    provider: str
    input: float
    output: float
    cache_read: float
    cache_write: float
    cache_write_1h: float
    origin: str
    as_of: date


def _today() -> date:
    return datetime.now(UTC).date()


class ModelRegistry:
    """Prices of all known models. `prices` are a person's own, by model name."""

    def __init__(
        self,
        prices: Mapping[str, PriceSettings] | None = None,
        *,
        today: Callable[[], date] = _today,
    ) -> None:
        self._today = today
        self._own: dict[str, PriceSettings] = {}
        self._known: dict[tuple[str, str, date], Rates | None] = {}
        self._add(prices or {})

    def load(self, path: Path) -> None:
        """Add prices from a JSON, YAML or TOML file; they replace earlier ones of a model."""
        self._add(read_prices(path))

    def rates(self, agent: str, model: str, day: date) -> Rates | None:
        """The rates of a model, as the agent names it, on the day of the call (UTC)."""
        key = (agent, model, day)
        if key not in self._known:
            self._known[key] = self._own_rates(agent, model, day) or find_rates(agent, model, day)
        return self._known[key]

    def price(self, agent: str, model: str) -> ModelPrice | None:
        """Today's price of a model; None when it is not known."""
        rates = self.rates(agent, model, self._today())
        if rates is None:
            return None
        return ModelPrice(
            model=rates.model_ref,
            provider=rates.provider,
            input=usd_per_million(rates.input),
            output=usd_per_million(rates.output),
            cache_read=usd_per_million(rates.cache_read),
            cache_write=usd_per_million(rates.cache_write),
            cache_write_1h=usd_per_million(rates.cache_write_1h),
            origin=rates.origin,
            as_of=rates.as_of,
        )

    def estimate_cost(
        self,
        agent: str,
        model: str,
        input_tokens: int,
        output_tokens: int,
        *,
        cached_tokens: int = 0,
        cache_write_tokens: int = 0,
    ) -> float:
        """What one call would cost today in USD; 0.0 when the model is not known.

        The counts do not overlap: `input_tokens` are those that came from no cache.
        """
        rates = self.rates(agent, model, self._today())
        if rates is None:
            return 0.0
        tokens = Tokens(
            input=input_tokens,
            output=output_tokens,
            cache_read=cached_tokens,
            cache_write=cache_write_tokens,
        )
        return cost_nusd(tokens, rates) / NANO

    def _add(self, prices: Mapping[str, PriceSettings]) -> None:
        self._own.update({model.lower(): price for model, price in prices.items()})
        self._known.clear()

    def _own_rates(self, agent: str, model: str, day: date) -> Rates | None:
        for name in _own_names(model):
            price = self._own.get(name)
            if price is not None:
                provider = AGENT_PROVIDERS.get(agent, "")
                return Rates(
                    **bucket_rates(_to_usd(price), claude=is_claude(provider, name)),
                    model_ref=name,
                    provider=provider,
                    origin="override",
                    as_of=day,
                )
        return None


def _own_names(model: str) -> Iterator[str]:
    """Under which names a person may have priced a model, the most exact first."""
    yield model.lower()
    name = plain_name(model)
    yield name
    name = name.rpartition("/")[2]
    yield name
    yield _DATE_SUFFIX.sub("", name)


def _to_usd(price: PriceSettings) -> UsdPrices:
    return UsdPrices(
        input=_decimal(price.input),
        output=_decimal(price.output),
        cache_read=None if price.cache_read is None else _decimal(price.cache_read),
        cache_write=None if price.cache_write is None else _decimal(price.cache_write),
        cache_write_1h=None if price.cache_write_1h is None else _decimal(price.cache_write_1h),
    )


def _decimal(number: float) -> Decimal:
    return Decimal(str(number))  # the decimal a person wrote, not its binary neighbour
