"""`ModelRegistry`: the prices of models, first those of the user, then those of the catalogue.

An unknown model has no price (None), never that of a similar model; its estimate is 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import msgspec

from amux.config import PriceSettings, read_prices
from amux.errors import ValidationError
from amux.model.base import Model
from amux.model.usage import NANO, Tokens
from amux.pricing.catalogue import (
    AGENT_PROVIDERS,
    find_rates,
    is_claude,
    model_names,
    plain_name,
)
from amux.pricing.rates import Rates, UsdPrices, bucket_rates, cost_nusd, usd_per_million
from amux.pricing.remembered import StoredRates
from amux.pricing.spelling import shorter_names

_DATE_SUFFIX = re.compile(r"[-@]\d{4}-?\d{2}-?\d{2}$")


class ModelPrice(Model, frozen=True, kw_only=True):
    """The price of a model in USD per million tokens, without a surcharge for long contexts."""

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
    """The prices of models. `prices` are user-provided, by model name."""

    def __init__(
        self,
        prices: Mapping[str, PriceSettings] | None = None,
        *,
        today: Callable[[], date] = _today,
        remembered: StoredRates | None = None,
    ) -> None:
        self._today = today
        self._remembered = remembered
        self._own: dict[str, PriceSettings] = {}
        self._known: dict[tuple[str, str, date], Rates | None] = {}
        self._lasting: dict[tuple[str, str], Rates | None] = {}  # equal on every day
        self._changes = b""
        self._add(prices or {})

    @property
    def changes(self) -> bytes:
        """Return the prices added by `load`, encoded; b"" if there are none.

        Stored costs are valid only for equal values.
        """
        return self._changes

    def load(self, path: Path) -> None:
        """Add prices from a JSON, YAML or TOML file; they replace earlier prices of a model."""
        prices = read_prices(path)
        self._add(prices)
        self._changes += msgspec.json.encode(prices)

    def rates(self, agent: str, model: str, day: date) -> Rates | None:
        """Return the rates of a model, as the agent names it, on a day (UTC); None if unknown."""
        key, known, lasting = (agent, model), self._known, self._lasting
        if key in lasting:
            return lasting[key]
        if (*key, day) not in known:
            rates, is_lasting = self._own_rates(agent, model, day), True
            if rates is None:
                rates, is_lasting = self._listed_rates(agent, model, day)
            if is_lasting:
                lasting[key] = rates
            known[*key, day] = rates
        return known[*key, day]

    def price(self, agent: str, model: str) -> ModelPrice | None:
        """Return today's price of a model; None if it is unknown."""
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
            as_of=self._today(),
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
        """Return the cost of the given tokens today in USD; 0.0 if the model is unknown.

        The counts do not overlap: `input_tokens` excludes cached tokens. They may be the sum of
        many calls, so no surcharge for long contexts is added: a sum does not show which calls
        were long.

        Raises:
            ValidationError: A count is negative.
        """
        _refuse_negative(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cached_tokens=cached_tokens,
            cache_write_tokens=cache_write_tokens,
        )
        rates = self.rates(agent, model, self._today())
        if rates is None:
            return 0.0
        tokens = Tokens(
            input=input_tokens,
            output=output_tokens,
            cache_read=cached_tokens,
            cache_write=cache_write_tokens,
        )
        return cost_nusd(tokens, msgspec.structs.replace(rates, tiers=())) / NANO

    def _add(self, prices: Mapping[str, PriceSettings]) -> None:
        self._own.update({model.lower(): price for model, price in prices.items()})
        self._known, self._lasting = {}, {}  # another thread may be using the old ones

    def _listed_rates(self, agent: str, model: str, day: date) -> tuple[Rates | None, bool]:
        """Return the rates of the catalogue, and whether they are equal on every day."""
        if self._remembered is None:
            return find_rates(agent, model, day)
        is_known, rates = self._remembered.find(agent, model)
        if is_known:
            return rates, True
        rates, lasting = find_rates(agent, model, day)
        if lasting:
            self._remembered.add(agent, model, rates)
        return rates, lasting

    def _own_rates(self, agent: str, model: str, day: date) -> Rates | None:
        for name in _own_names(agent, model):
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


def _refuse_negative(**counts: int) -> None:
    for name, count in counts.items():
        if count < 0:
            raise ValidationError(f"`{name}` must not be negative", fields=(name,))


def _own_names(agent: str, model: str) -> Iterator[str]:
    """Yield the names under which a user-provided price may be found, the most exact first."""
    yield model.lower()
    for name in (model, *model_names(agent, model)):
        for shorter in shorter_names(plain_name(name)):
            yield shorter
            yield _DATE_SUFFIX.sub("", shorter)


def _to_usd(price: PriceSettings) -> UsdPrices:
    # `str` gives the decimal number in the settings, not its binary neighbour.
    prices = msgspec.structs.asdict(price).items()
    return UsdPrices(**{name: Decimal(str(usd)) for name, usd in prices if usd is not None})
