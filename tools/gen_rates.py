"""Write src/amux/pricing/shipped.json from the installed version of genai-prices.

With `--check` nothing is written: the exit code says whether the file is up to date. A file of
another version of genai-prices counts as up to date, because amux does not use it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import genai_prices
import msgspec
from genai_prices import types
from genai_prices.data import providers

from amux.pricing.catalogue import (
    BOTH,
    FILE,
    UNSURE,
    Prices,
    Shipped,
    ShippedModel,
    entries_by_key,
    is_claude,
    load_shipped,
    rates_by_token,
)
from amux.pricing.rates import TokenRates

PROVIDERS = ("anthropic", "google", "openai")
"""The providers whose models most agents call."""


def main() -> int:
    """Write the file, or compare it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--check", action="store_true", help="only compare")
    text = render()
    if not options.parse_args().check:
        FILE.write_text(text, encoding="utf-8", newline="\n")
        return 0
    is_other = FILE.is_file() and load_shipped().version != genai_prices.__version__
    if is_other or (FILE.is_file() and FILE.read_text(encoding="utf-8") == text):
        return 0
    print("the shipped rates are out of date; run tools/gen_rates.py", file=sys.stderr)
    return 1


def render() -> str:
    """Return the content of the file: one model per line, so that versions can be compared."""
    shipped = Shipped(
        version=genai_prices.__version__,
        owners=tuple((p.id, names) for p in providers if (names := names_of(p.model_match))),
        models={
            each.id: tuple(model_of(model, each) for model in each.models)
            for each in providers
            if each.id in PROVIDERS
        },
        resellers=tuple(
            each.id for each in providers if each.id in PROVIDERS and each.fallback_model_providers
        ),
        spellings="\n".join(sorted(entries_by_key(providers))),
    )
    return "".join(_lines(shipped)) + "\n"


def _lines(shipped: Shipped) -> Iterator[str]:
    start = "{"
    for field in msgspec.structs.fields(shipped):
        value = getattr(shipped, field.name)
        yield f'{start}"{field.encode_name}":'
        start = ",\n"
        if field.name == "models":
            listed = ",\n".join(f'"{id}":{_per_line(models)}' for id, models in value.items())
            yield f"{{\n{listed}}}"
        else:
            yield _per_line(value) if isinstance(value, tuple) else _json(value)
    yield "}"


def _per_line(values: tuple[object, ...]) -> str:
    return "[\n" + ",\n".join(map(_json, values)) + "]"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def model_of(model: types.ModelInfo, provider: types.Provider) -> ShippedModel:
    """Return a model in the form of the file."""
    claude = is_claude(provider.id, "")
    listed = (
        model.prices
        if isinstance(model.prices, list)
        else [types.ConditionalPrice(prices=model.prices)]
    )
    kept = tuple(_prices(each, claude=claude) for each in listed)
    is_sure = all(each is not None for each in kept)
    return ShippedModel(
        id=model.id,
        names=names_of(model.match),
        prices=tuple(filter(None, kept)) if is_sure else (),
    )


def _prices(price: types.ConditionalPrice, *, claude: bool) -> Prices | None:
    """Return the prices from a day on; None if they depend on more than the day."""
    constraint = price.constraint
    if constraint is not None and not isinstance(constraint, types.StartDateConstraint):
        return None
    since = None if constraint is None else constraint.start_date
    priced = rates_by_token(price.prices, claude=claude)
    if priced is None:
        return Prices(since, None)
    rates, tiers = priced
    return Prices(since, TokenRates(**rates), tiers)


def names_of(clause: types.MatchLogic | None) -> tuple[str, ...]:
    """Return a rule for names in the form that `ShippedModel` documents."""
    match clause:
        case None:
            return ()
        case types.ClauseOr():
            return tuple(name for inner in clause.or_ for name in names_of(inner))
        case types.ClauseAnd() if all(len(names_of(inner)) == 1 for inner in clause.and_):
            rule = "&" + BOTH.join(name for inner in clause.and_ for name in names_of(inner))
        case types.ClauseEquals():
            rule = f"={clause.equals.lower()}"
        case types.ClauseStartsWith():
            rule = f"^{clause.starts_with.lower()}"
        case types.ClauseEndsWith():
            rule = f"${clause.ends_with.lower()}"
        case types.ClauseContains():
            rule = f"*{clause.contains.lower()}"
        case types.ClauseRegex():
            rule = f"~{clause.regex}"
        case _:
            rule = UNSURE
    return (rule,)


if __name__ == "__main__":
    sys.exit(main())
