"""Rates from the installed genai-prices catalogue: dated, tiered, offline.

Loading the catalogue takes longer than listing sessions. `shipped.json`, written by
tools/gen_rates.py, holds the rates of the most frequent models from one version of the catalogue
and answers in a hundredth of the time. It is used only if exactly that version is installed and the
match is certain; otherwise the catalogue is loaded.

A name that the catalogue does not have as it is recorded may be another spelling of an entry, have
a date that the entry lacks, be known only from another provider, or have a prefix that the
catalogue does not know. The rates then say so in `note`. A model that is not in the catalogue has
no rates: nothing is guessed from a similar name.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from amux.pricing.corrections import CORRECTIONS, corrected
from amux.pricing.rates import BucketRates, Rates, RateTier, TokenRates, UsdPrices, bucket_rates
from amux.pricing.spelling import cut_prefix, is_local, shorter_names, spelling_key, undated

if TYPE_CHECKING:
    from genai_prices import types

AGENT_PROVIDERS = {"claude": "anthropic", "codex": "openai"}
"""The provider of an agent's models if the name of the model does not contain one."""

_VARIANT = re.compile(r"\[[^\]]*\]$")  # `claude-opus-4-1[1m]`: an option of the agent, not a model
_CUSTOM = re.compile(r"custom:(?P<label>.+?)(?:-[\[(](?P<provider>[^\])]*)[\])])?-\d{1,3}")
_VENDOR = re.compile(r"([^/:]*)[/:](.*)")
_BEDROCK = re.compile(r"[a-z]+(?:-[a-z]+)*\.(?=[a-z])")  # `us.amazon.nova-pro-v1:0`
_ANOTHER = re.compile(
    r"[-:](?:fast|turbo|mini|nano|lite|free|batch|flex|priority)(?![a-z0-9])"
    r"|-(?:distill|\d+(?:\.\d+)?b)(?![a-z0-9])"
    r"|:(?!(?:beta|thinking|extended)$)[a-z]"
)
_DATE_DIGITS = 8
_COMPACT_DATE = re.compile(r"-(20\d\d)([01]\d)([0-3]\d)(?!\d)")
_PRICE_KEYS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
}
FILE: Final = Path(__file__).with_name("shipped.json")
UNSURE: Final = "?"
BOTH: Final = "\n"
_DATED: Final = re.compile(r"-20\d{6}")  # the catalogue retries such a name in another spelling
_KINDS: Final[dict[str, Callable[[str, str], bool]]] = {
    "=": str.__eq__,
    "^": str.startswith,
    "$": str.endswith,
    "*": str.__contains__,
    "~": lambda name, pattern: re.search(pattern, name) is not None,
}


class Prices(msgspec.Struct, array_like=True, frozen=True):
    """Prices from a day on. `rates` is None if the model is not billed by tokens."""

    since: date | None
    rates: TokenRates | None
    tiers: tuple[RateTier, ...] = ()


class ShippedModel(msgspec.Struct, array_like=True, frozen=True):
    """A model, the rules for its names, and its prices, oldest first; no prices: not certain.

    A rule consists of a sign and a text: `^` means that the name begins with the text, `$` that it
    ends with it, `*` that it contains it, `=` that it equals it, `~` that it matches it as a
    regular expression. `&` is followed by rules that must all match, one per line. `?` stands for a
    rule that only the catalogue can evaluate.
    """

    id: str
    names: tuple[str, ...]
    prices: tuple[Prices, ...]


class Shipped(msgspec.Struct, frozen=True):
    """The content of `shipped.json`."""

    version: str
    owners: tuple[tuple[str, tuple[str, ...]], ...]
    """Providers and the rules for the names of their models, in the order of the catalogue."""

    models: dict[str, tuple[ShippedModel, ...]]
    """All models of some providers, in the order of the catalogue."""

    resellers: tuple[str, ...] = ()
    """The providers in `models` that also offer models of other providers."""

    spellings: str = ""
    """The spelling keys of the names of all models of all providers, one per line."""


class Answer(NamedTuple):
    """The rates of a model (None: it has none), and whether they are equal on every day."""

    rates: Rates | None
    lasting: bool


def find_rates(agent: str, model: str, day: date) -> tuple[Rates | None, bool]:
    """Return the rates of a model as an agent names it, and whether they are equal on every day.

    The rates are None if the catalogue has no such model.
    """
    rates, lasting = None, True
    for name in model_names(agent, model):
        rates, lasting = _find_rates(agent, name, day)
        if rates is not None:
            break
    return rates, lasting


def _find_rates(agent: str, model: str, day: date) -> tuple[Rates | None, bool]:
    if "genai_prices" not in sys.modules:  # a program may have changed the prices of a loaded one
        shipped = shipped_rates(agent, model, day)
        if shipped is not None:
            return shipped
    return look_up_rates(agent, model, day)


def look_up_rates(agent: str, model: str, day: date) -> tuple[Rates | None, bool]:
    """Return what `find_rates` returns for a name, from the catalogue instead of `shipped.json`."""
    # Some prices depend on the hour; at noon UTC the regular ones apply.
    moment = datetime.combine(day, time(12), UTC)
    name = plain_name(model)
    for ref in () if is_local(name) else shorter_names(name):
        entry = _listed_entry(agent, ref, moment) or _other_entry(agent, ref)
        if entry is not None:
            rates, lasting = _entry_rates(entry.provider, entry.model, entry.name, moment)
            note = "; ".join(filter(None, (entry.note, _missing_entry(entry, name, ref))))
            return None if rates is None else msgspec.structs.replace(rates, note=note), lasting
    return None, True


class CatalogueEntry(NamedTuple):
    """An entry that a name certainly means, under which name, and why if that is another one."""

    provider: types.Provider
    model: types.ModelInfo
    name: str
    note: str = ""


def _listed_entry(agent: str, name: str, moment: datetime) -> CatalogueEntry | None:
    """Return the entry that the catalogue itself finds for a name."""
    for provider, ref in candidates(agent, name):
        found = _look_up(provider, ref, moment)
        if found is not None:
            return CatalogueEntry(found.provider, found.model, ref)
    return None


def _missing_entry(entry: CatalogueEntry, name: str, ref: str) -> str:
    """Return in words that the catalogue does not know what stands before `ref` in a name."""
    prefix = _prefix(name, ref)
    is_known = not prefix or _is_called(entry.provider, prefix)
    return "" if is_known else f"the catalogue has no such entry of `{prefix}`"


def _prefix(name: str, rest: str) -> str:
    return name.removesuffix(rest).rstrip("/:.")


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
    """Return whether a name matches and what follows the matching part names no other model."""
    dashed = _COMPACT_DATE.sub(r"-\1-\2-\3", ref)
    return _clause_fits(clause, ref) or _clause_fits(clause, dashed)


def _clause_fits(clause: types.MatchLogic, ref: str) -> bool:
    from genai_prices import types

    match clause:
        case types.ClauseOr():
            return any(_clause_fits(inner, ref) for inner in clause.or_)
        case types.ClauseAnd():
            return all(_clause_fits(inner, ref) for inner in clause.and_)
        case types.ClauseStartsWith():
            return clause.is_match(ref) and not goes_on(ref, len(clause.starts_with))
        case types.ClauseContains():
            at = ref.find(clause.contains.lower())
            return at >= 0 and not goes_on(ref, at + len(clause.contains))
        case _:
            return clause.is_match(ref)


def _entry_rates(
    provider: types.Provider, model: types.ModelInfo, ref: str, moment: datetime
) -> tuple[Rates | None, bool]:
    """Return the rates of an entry, and whether they are equal on every day."""
    import genai_prices

    claude, day = is_claude(provider.id, ref), moment.date()
    lasting = not isinstance(model.prices, list) and (provider.id, ref) not in CORRECTIONS
    correction = corrected(provider.id, ref, day)
    tiers: tuple[RateTier, ...] = ()
    if correction is not None:
        rates, origin = bucket_rates(correction.prices, claude=claude), correction.source
    else:
        priced = rates_by_token(model.get_prices(moment), claude=claude)
        if priced is None:
            return None, lasting
        rates, tiers = priced
        origin = f"genai-prices {genai_prices.__version__}"
    return Rates(
        **rates,
        model_ref=model.id,
        provider=provider.id,
        origin=origin,
        as_of=day,
        tiers=tiers,
    ), lasting


# Entries under another name


MAKERS: Final = (
    "anthropic", "openai", "google", "x-ai", "deepseek", "moonshotai", "zai", "zhipuai", "minimax",
    "mistral", "meta", "cohere", "perplexity", "arcee", "cursor",
)  # fmt: skip
"""Providers that sell models of their own: their price comes first, then that of openrouter."""

_RESELLER: Final = "openrouter"


def _other_entry(agent: str, name: str) -> CatalogueEntry | None:
    """Return the entry of a name without its date, in another spelling or of another provider.

    An entry must have the whole name. One of the provider that the name begins with may also have
    a shorter one.
    """
    rest = cut_prefix(name)
    head = _prefix(name, rest) if rest else AGENT_PROVIDERS.get(agent, "")
    by_key = _entries_by_key()
    found = [
        (shorter, ref, entry)
        for shorter in shorter_names(name)
        for ref in dict.fromkeys((shorter, undated(shorter)))
        for entry in by_key.get(spelling_key(ref), ())
        if shorter == name or _is_called(entry[0], head)
    ]
    found.sort(key=lambda each: _rank(each[2][0], head))
    for shorter, ref, (provider, entry) in found:
        if rates_by_token(_standard_prices(entry), claude=False) is not None:
            reasons = ["the name without its date"] if ref != shorter else []
            reasons += _reasons(ref, head if rest else "", provider, entry)
            return CatalogueEntry(provider, entry, entry.id, "; ".join(reasons))
    return None


_Entries = dict[str, list[tuple["types.Provider", "types.ModelInfo"]]]
_indexed: list[tuple[object, _Entries]] = []  # the entries of the newest catalogue


def _entries_by_key() -> _Entries:
    """Return the entries of the catalogue by the spelling of their names, unless they differ."""
    from genai_prices.data_snapshot import get_snapshot

    snapshot = get_snapshot()  # a program may have replaced it
    if not _indexed or _indexed[0][0] is not snapshot:
        _indexed[:] = [(snapshot, entries_by_key(snapshot.providers))]
    return _indexed[0][1]


def entries_by_key(providers: Iterable[types.Provider]) -> _Entries:
    """Return entries by spelling; several entries of one provider must have the same prices."""
    found: _Entries = {}
    for provider in providers:
        own: dict[str, list[types.ModelInfo]] = {}
        for model in provider.models:
            for key in dict.fromkeys(map(spelling_key, entry_names(model))):
                own.setdefault(key, []).append(model)
        for key, models in own.items():
            if all(model.prices == models[0].prices for model in models):
                found.setdefault(key, []).append((provider, models[0]))
    return found


def entry_names(model: types.ModelInfo) -> list[str]:
    """Return the names of an entry: its id, with and without a vendor, and those of its rules."""
    names = [model.id, *_literal_names(model.match)]
    return list(dict.fromkeys((*names, *(name.rpartition("/")[2] for name in names))))


def _literal_names(clause: types.MatchLogic) -> list[str]:
    from genai_prices import types

    match clause:
        case types.ClauseOr():
            return [name for inner in clause.or_ for name in _literal_names(inner)]
        case types.ClauseEquals():
            return [clause.equals]
        case _:
            return []


def _rank(provider: types.Provider, head: str) -> tuple[int, int]:
    """Return the place of an entry: the recorded provider, the makers, openrouter, all others."""
    if _is_called(provider, head):
        return 0, 0
    if provider.id in MAKERS:
        return 1, MAKERS.index(provider.id)
    return 2 if provider.id == _RESELLER else 3, 0


def _is_called(provider: types.Provider, head: str) -> bool:
    match = provider.provider_match
    return provider.id == head or (match is not None and match.is_match(head))


def _standard_prices(model: types.ModelInfo) -> types.ModelPrice:
    prices = model.prices
    return prices[0].prices if isinstance(prices, list) else prices


def _reasons(
    ref: str, head: str, provider: types.Provider, model: types.ModelInfo
) -> Iterator[str]:
    """Yield in words why an entry is used for a name that is not its own or of another vendor."""
    is_spelled = ref.rpartition("/")[2] in {each.lower() for each in entry_names(model)}
    if not is_spelled:
        yield "another spelling of the name"
    if head and not _is_called(provider, head):
        yield f"the catalogue has no such entry of `{head}`"
    elif not head and provider.id not in MAKERS:
        yield f"the catalogue has no entry of its maker, but one of {provider.id}"
    elif not head and is_spelled:
        yield f"the catalogue has the name from {provider.id}"


def rates_by_token(
    price: types.ModelPrice, *, claude: bool
) -> tuple[BucketRates, tuple[RateTier, ...]] | None:
    """Return the rates and the tiers of a price; None if it is not a price per token."""
    found = {bucket: getattr(price, key) for bucket, key in _PRICE_KEYS.items()}
    published = {bucket: value for bucket, value in found.items() if value is not None}
    if not {"input", "output"} <= published.keys():
        return None
    starts = sorted({tier.start for price in published.values() for tier in _tiers(price)})
    tiers = tuple(
        RateTier(above=start, **bucket_rates(_prices_at(published, start + 1), claude=claude))
        for start in starts
    )
    return bucket_rates(_prices_at(published, 0), claude=claude), tiers


def _prices_at(published: dict[str, Decimal | types.TieredPrices], input_tokens: int) -> UsdPrices:
    return UsdPrices(**{key: _price_at(price, input_tokens) for key, price in published.items()})


def _price_at(price: Decimal | types.TieredPrices, input_tokens: int) -> Decimal:
    if isinstance(price, Decimal):
        return price
    reached = [tier.price for tier in _tiers(price) if input_tokens > tier.start]
    return reached[-1] if reached else price.base


def _tiers(price: Decimal | types.TieredPrices) -> list[types.Tier]:
    return [] if isinstance(price, Decimal) else price.tiers


# The names of models


def plain_name(model: str) -> str:
    """Return the name of a model in lower case, without the options agents append to it."""
    return _VARIANT.sub("", model.strip().lower())


def model_names(agent: str, model: str) -> tuple[str, ...]:
    """Return the names under which a recorded model is looked up, the best first.

    Droid calls a model of the user's own by the label that the user gave it and its number in the
    settings: `custom:GLM-4.7-[Ollama]-0`. A label may end with the provider, in brackets.
    """
    custom = _CUSTOM.fullmatch(model.strip()) if agent == "droid" else None
    if custom is None:
        return (model,)
    provider = (custom["provider"] or "").lower()
    if any(is_local(f"{word}/") for word in provider.split("-")):
        provider = "local"
    return (
        f"custom:{provider}/{custom['label']}" if provider else f"custom:{custom['label']}",
        model,
    )


def is_claude(provider: str, model: str) -> bool:
    """Return whether a model is billed by Anthropic's rules, regardless of the provider."""
    return provider == "anthropic" or "claude" in model.lower()


def candidates(agent: str, model: str) -> Iterator[tuple[str | None, str]]:
    """Yield (provider, name) pairs to look up, the best first; None: find the provider by name."""
    name = plain_name(model)
    vendor = _VENDOR.match(name)
    if name.startswith("arn:aws:bedrock:") or "anthropic.claude" in name:
        yield "aws", name
    elif _BEDROCK.match(name) and "/" not in name:
        yield "aws", name
        yield None, name
    elif vendor:
        yield vendor[1], vendor[2]
        yield None, name
    else:
        yield AGENT_PROVIDERS.get(agent), name
        yield None, name


def goes_on(ref: str, end: int) -> bool:
    """Return whether a name that begins like that of a model is the name of another one.

    It ends inside a number (`opus-4-10` is not `opus-4-1`), or says in the rest that it is another
    size (`deepseek-r1-distill-qwen-7b`) or another offer (`:free`, `-fast`) of the model.
    """
    return cuts_number(ref, end) or _ANOTHER.search(ref, end) is not None


def cuts_number(ref: str, end: int) -> bool:
    """Return whether the offset `end` lies inside a number. A date may directly follow a number."""
    before = re.search(r"\d*$", ref[:end])
    after = re.match(r"\d*", ref[end:])
    left, right = len(before[0]) if before else 0, len(after[0]) if after else 0
    return left > 0 and right > 0 and left + right != _DATE_DIGITS


# The shipped rates


def shipped_rates(agent: str, model: str, day: date) -> Answer | None:
    """Return the shipped rates of a model; None if the catalogue must be loaded."""
    shipped = _installed()
    if shipped is None:
        return None
    whole = plain_name(model)
    names = [] if is_local(whole) else shorter_names(whole)
    for named, name in (each for shorter in names for each in candidates(agent, shorter)):
        provider = _owner(shipped, name) if named is None else named
        if provider is None:
            continue
        if provider not in shipped.models or (provider != "anthropic" and "claude" in name):
            return None  # the model is billed by the rules of another provider
        found = _find(shipped.models[provider], name)
        if found is not None:
            return _answer(found, shipped.version, provider, day) if _is_sure(found, name) else None
        if _DATED.search(name) or provider in shipped.resellers:
            return None
    is_listed = any(not _spellings().isdisjoint(map(spelling_key, (n, undated(n)))) for n in names)
    return None if is_listed else Answer(None, lasting=True)


def load_shipped() -> Shipped:
    """Return the content of `shipped.json`, whichever version of the catalogue is installed."""
    return msgspec.json.decode(FILE.read_bytes(), type=Shipped)


@cache
def _installed() -> Shipped | None:
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("genai_prices")
    shipped = load_shipped()
    wanted = f"genai_prices-{shipped.version}.dist-info"
    folders = () if spec is None else spec.submodule_search_locations or ()
    return shipped if any(Path(folder).with_name(wanted).is_dir() for folder in folders) else None


@cache
def _spellings() -> frozenset[str]:
    shipped = _installed()
    return frozenset(() if shipped is None else shipped.spellings.split("\n"))


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
    """Return whether a rule matches without cutting a number and none is left to the catalogue."""
    return UNSURE not in model.names and any(
        _fits(rule, name) and not _cuts(rule, name) for rule in model.names
    )


def _cuts(rule: str, name: str) -> bool:
    if rule[0] == "&":
        return any(_cuts(inner, name) for inner in rule[1:].split(BOTH))
    if rule[0] not in "^*":
        return False
    return goes_on(name, name.find(rule[1:]) + len(rule) - 1)


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
