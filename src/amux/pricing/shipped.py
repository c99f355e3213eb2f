"""Rates that come with amux: what one version of the catalogue says of the models agents call most.

Loading the catalogue takes longer than a list does. This is the same answer for a hundredth of the
time, as long as that very version is installed. Where the answer is not sure, there is none and the
catalogue is asked. `shipped.json` is written by tools/gen_rates.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from amux.pricing.names import candidates, cuts_number
from amux.pricing.rates import Rates, RateTier, TokenRates

FILE: Final = Path(__file__).with_name("shipped.json")
UNSURE: Final = "?"
BOTH: Final = "\n"
_DATED: Final = re.compile(r"-20\d{6}")  # a form that the catalogue rewrites when it finds nothing
_KINDS: Final[dict[str, Callable[[str, str], bool]]] = {
    "=": str.__eq__,
    "^": str.startswith,
    "$": str.endswith,
    "*": str.__contains__,
    "~": lambda name, pattern: re.search(pattern, name) is not None,
}


class Prices(msgspec.Struct, array_like=True, frozen=True):
    """Prices from a day on; no `rates`: not by tokens."""

    since: date | None
    rates: TokenRates | None
    tiers: tuple[RateTier, ...] = ()


class ShippedModel(msgspec.Struct, array_like=True, frozen=True):
    """A model, the names it goes by, and its prices, the first ones first; none: not sure.

    A name that fits begins with what follows `^`, ends with what follows `$`, holds what follows
    `*`, fits the pattern behind `~` or is what follows `=`; what follows `&` are rules that have to
    fit, each on a line. `?` stands for a rule that only the catalogue knows.
    """

    id: str
    names: tuple[str, ...]
    prices: tuple[Prices, ...]


class Shipped(msgspec.Struct, frozen=True):
    """What the catalogue of a version says."""

    version: str
    owners: tuple[tuple[str, tuple[str, ...]], ...]
    """Providers and the names of models that are theirs, in the order of the catalogue."""

    models: dict[str, tuple[ShippedModel, ...]]
    """All models of some providers, in the order of the catalogue."""

    resellers: tuple[str, ...] = ()
    """Those of them that have models of others, too."""


class Answer(NamedTuple):
    """The rates of a model, None if it has none; and whether they are the same on every day."""

    rates: Rates | None
    lasting: bool


def shipped_rates(agent: str, model: str, day: date) -> Answer | None:
    """What the installed catalogue says of a model; None: ask it."""
    shipped = _installed()
    if shipped is None:
        return None
    for named, name in candidates(agent, model):
        provider = _owner(shipped, name) if named is None else named
        if provider is None:
            continue
        if provider not in shipped.models or (provider != "anthropic" and "claude" in name):
            return None  # such a model is billed by the rules of another provider
        found = _find(shipped.models[provider], name)
        if found is not None:
            return _answer(found, shipped.version, provider, day) if _is_sure(found, name) else None
        if _DATED.search(name) or provider in shipped.resellers:
            return None
    return Answer(None, lasting=True)


def load_shipped() -> Shipped:
    """The file, whether it is that of the installed catalogue or not."""
    return msgspec.json.decode(FILE.read_bytes(), type=Shipped)


@cache
def _installed() -> Shipped | None:
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("genai_prices")
    shipped = load_shipped()
    wanted = f"genai_prices-{shipped.version}.dist-info"
    places = () if spec is None else spec.submodule_search_locations or ()
    return shipped if any(Path(place).with_name(wanted).is_dir() for place in places) else None


def _owner(shipped: Shipped, name: str) -> str | None:
    return next((id for id, names in shipped.owners if any(_fits(n, name) for n in names)), None)


def _find(models: Iterable[ShippedModel], name: str) -> ShippedModel | None:
    return next((m for m in models if any(_fits(n, name) for n in m.names)), None)


def _fits(rule: str, name: str) -> bool:
    kind, text = rule[0], rule[1:]
    fits = _KINDS.get(kind)
    if fits is not None:
        return fits(name, text)
    return kind != "&" or all(_fits(inner, name) for inner in text.split(BOTH))


def _is_sure(model: ShippedModel, name: str) -> bool:
    """Whether a rule fits without cutting a number, and none is for the catalogue to judge."""
    return UNSURE not in model.names and any(
        _fits(rule, name) and not _cuts(rule, name) for rule in model.names
    )


def _cuts(rule: str, name: str) -> bool:
    if rule[0] == "&":
        return any(_cuts(inner, name) for inner in rule[1:].split(BOTH))
    if rule[0] not in "^*":
        return False
    return cuts_number(name, name.find(rule[1:]) + len(rule) - 1)


def _answer(model: ShippedModel, version: str, provider: str, day: date) -> Answer | None:
    if not model.prices:
        return None
    in_force = [one for one in model.prices if one.since is None or one.since <= day]
    prices = in_force[-1] if in_force else model.prices[0]
    lasting = len(model.prices) == 1
    if prices.rates is None:
        return Answer(None, lasting)
    rates = Rates(
        **msgspec.structs.asdict(prices.rates),
        model_ref=model.id,
        provider=provider,
        origin=f"genai-prices {version}",
        as_of=day,
        tiers=prices.tiers,
    )
    return Answer(rates, lasting)
