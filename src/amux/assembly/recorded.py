"""The calls that an agent's recorded total does not cover, and what they probably cost.

An agent may record one total for a session, with the tokens that it stands for. If the process was
killed, its calls are in the log, but not in the total that a later process recorded. The log then
holds more tokens of some kind than the total covers. The difference is priced like the calls.

The total may also cover calls that the log does not hold (titles, compactions), so a small
difference may be hidden by them; it is never exaggerated. A call that was interrupted is in no
total, because an agent adds a call when it is complete; it is marked anyway, and not compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from amux.model.incomplete import CALL_INTERRUPTED
from amux.model.usage import Call, Tokens, sum_tokens
from amux.pricing.rates import Rates, cost_nusd

_SPELLING: Final = re.compile(r"\[[^\]]*\]$|-\d{8}$")
_OTHERS: Final = ""  # the name for models that only the log, or only the total, has


class Uncovered(NamedTuple):
    """The estimated cost of what a recorded total does not cover."""

    nusd: int
    is_priced: bool  # whether all of it has a price


def find_uncovered(
    calls: Sequence[Call],
    prices: Sequence[int | None],
    covered: Mapping[str, Tokens],
    rates_of: Callable[[Call], Rates | None],
) -> Uncovered | None:
    """Return what `covered`, the tokens of a total by model, lacks; None if it covers all calls."""
    by_model: dict[str, list[int]] = {}
    for index, call in enumerate(calls):
        if CALL_INTERRUPTED not in call.gaps:
            by_model.setdefault(_plain(call.model), []).append(index)
    recorded: dict[str, Tokens] = {}
    for model, tokens in covered.items():
        name = _plain(model) if _plain(model) in by_model else _OTHERS
        recorded[name] = recorded.get(name, Tokens()) + tokens
    for name in [name for name in by_model if name and name not in recorded]:
        by_model.setdefault(_OTHERS, []).extend(by_model.pop(name))
    found: Uncovered | None = None
    for name, group in by_model.items():
        spent = sum_tokens(calls[index] for index in group)
        lacking = _difference(spent, recorded.get(name, Tokens()))
        if lacking.total:
            known = [price for index in group if (price := prices[index]) is not None]
            rates = rates_of(calls[group[0]]) if len(known) == len(group) else None
            nusd, is_priced = (0, True) if found is None else found
            if rates is not None:
                nusd += sum(known) * _weight(lacking, rates) // max(1, _weight(spent, rates))
            found = Uncovered(nusd, is_priced and rates is not None)
    return found


def _plain(model: str | None) -> str:
    """Return a name that does not depend on how a model was asked for: no date, no context size."""
    return _SPELLING.sub("", (model or "").casefold())


def _difference(spent: Tokens, covered: Tokens) -> Tokens:
    written = max(0, spent.cache_write - covered.cache_write)
    return Tokens(
        input=max(0, spent.input - covered.input),
        cache_read=max(0, spent.cache_read - covered.cache_read),
        cache_write=written,
        cache_write_1h=min(written, max(0, spent.cache_write_1h - covered.cache_write_1h)),
        output=max(0, spent.output - covered.output),
    )


def _weight(tokens: Tokens, rates: Rates) -> int:
    """Return the cost of tokens of several calls; only its proportion to another one matters."""
    return cost_nusd(tokens, msgspec.structs.replace(rates, tiers=()))
