"""What a session cost: every owned call priced once, by the agent's own figure where there is one.

Sources in order: the agent's record, the run index, the price catalogue. Money is integer nano-USD;
a call without a known price stays `None` and makes the sum incomplete, never zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date
from typing import Self

from amux.annotations.file import AnnotationFile
from amux.annotations.ledger import Annotations
from amux.model.annotation import Note
from amux.model.cost import CostRecord, CostSource
from amux.model.problems import Problem
from amux.model.usage import NANO, Call, Tokens
from amux.pricing.rates import Rates, cost_nusd, usd_per_million
from amux.pricing.registry import ModelRegistry
from amux.run_index import Run, RunIndex
from amux.sessions.parts import Joined

UNPRICED = "unpriced-model"


@dataclass(slots=True, frozen=True)
class PricedCall:
    """A counted call and its share of the session's cost; None = no price is known."""

    call: Call
    nusd: int | None


@dataclass(slots=True, frozen=True)
class SessionCost:
    """Everything a session was billed for, sub-agents included."""

    calls: tuple[PricedCall, ...]
    source: CostSource
    extra_nusd: int  # recorded for the session, but for none of its calls
    incomplete: tuple[str, ...]
    extra_tokens: Tokens = field(default_factory=Tokens)  # likewise

    @property
    def nusd(self) -> int:
        """The known part of the sum."""
        return self.extra_nusd + sum(priced.nusd or 0 for priced in self.calls)

    def record(self) -> CostRecord:
        """The same at the JSON edge."""
        tokens = self.extra_tokens + sum_tokens(priced.call for priced in self.calls)
        return cost_record(tokens, self.nusd, source=self.source, incomplete=self.incomplete)


def sum_tokens(calls: Iterable[Call]) -> Tokens:
    """All tokens of some calls."""
    total = Tokens()
    for call in calls:
        total += call.tokens
    return total


def cost_record(
    tokens: Tokens, nusd: int, *, source: CostSource | None, incomplete: Sequence[str]
) -> CostRecord:
    """Tokens and money in the specification's shape."""
    return CostRecord(
        total_usd=nusd / NANO,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        thinking_tokens=tokens.thinking,
        cached_tokens=tokens.cache_read,
        cache_write_tokens=tokens.cache_write,
        source=source,
        incomplete=tuple(incomplete),
    )


class Coster:
    """What is known of sessions beside their sources: prices, runs, and what a person added."""

    def __init__(
        self,
        prices: ModelRegistry,
        runs: RunIndex,
        *,
        today: date,
        annotations: AnnotationFile | None = None,
    ) -> None:
        self._prices = prices
        self._runs = runs
        self._today = today  # the day of calls whose time was not recorded
        self._annotation_file = annotations
        self._annotations = Annotations()

    def refreshed(self) -> Self:
        """The same, with the annotations as they are now."""
        if self._annotation_file is not None:
            self._annotations = self._annotation_file.current()
        return self

    @property
    def runs(self) -> RunIndex:
        """The run index in use."""
        return self._runs

    def tags_of(self, session: Joined) -> tuple[str, ...]:
        """The tags its runs were given, then those a person gave it; each once."""
        of_runs = self._runs.tags_of(session.agent, session.session_id)
        if not self._annotations:
            return of_runs
        given = (self._annotations.tags_of(session.agent, name) for name in _names(session))
        return tuple(dict.fromkeys((*of_runs, *(tag for tags in given for tag in tags))))

    def is_starred(self, session: Joined) -> bool:
        """Whether a person gave it a star."""
        return bool(self._annotations) and any(
            self._annotations.starred(session.agent, name) for name in _names(session)
        )

    def notes_of(self, session: Joined) -> tuple[Note, ...]:
        """What a person wrote on it."""
        return tuple(
            note
            for name in _names(session)
            for note in self._annotations.notes_of(session.agent, name)
        )

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What could not be read of the annotations."""
        return self._annotations.problems

    def price(self, agent: str, call: Call) -> int | None:
        """The agent's own figure, else the catalogue's; None when neither knows."""
        if call.native_nusd is not None:
            return call.native_nusd
        rates = self._rates(agent, call)
        return None if rates is None else cost_nusd(call.tokens, rates)

    def rates_used(self, agent: str, call: Call) -> tuple[dict[str, float] | None, str | None]:
        """USD per million tokens by bucket, and who says so; no rates for an agent's own figure."""
        if call.native_nusd is not None:
            return None, "native"
        rates = self._rates(agent, call)
        if rates is None:
            return None, None
        tokens = call.tokens
        rate = rates.at(tokens.input + tokens.cache_read + tokens.cache_write)
        return {
            "input": usd_per_million(rate.input),
            "cacheRead": usd_per_million(rate.cache_read),
            "cacheWrite": usd_per_million(rate.cache_write),
            "cacheWrite1h": usd_per_million(rate.cache_write_1h),
            "output": usd_per_million(rate.output),
        }, rates.origin

    def _rates(self, agent: str, call: Call) -> Rates | None:
        if call.model is None:
            return None
        day = call.at.astimezone(UTC).date() if call.at else self._today
        return self._prices.rates(agent, call.model, day)

    def cost_of(self, session: Joined) -> SessionCost | None:
        """The session's cost; None when nothing at all was recorded."""
        members = list(session.with_children())
        priced = [
            PricedCall(call=call, nusd=self.price(session.agent, call))
            for member in members
            for call in member.calls
        ]
        gaps = _gaps(members)
        recorded = _recorded_total(session)
        if recorded is not None:
            return _spread(priced, recorded, "native", gaps)
        if priced and all(one.call.native_nusd is not None for one in priced):
            return SessionCost(tuple(priced), "native", 0, gaps)
        billed = _billed_runs(self._runs.runs_of(session.agent, session.session_id))
        if billed:
            return _cost_of_runs(priced, billed, gaps)
        if not priced:
            return _nothing_of_its_own(session, gaps)
        if any(one.nusd is None for one in priced):
            gaps = (*gaps, UNPRICED)
        return SessionCost(tuple(priced), "estimate", 0, gaps)


def _names(session: Joined) -> Iterable[str]:
    """Every id it can be found by: of two sessions with one id, an alias names just one."""
    aliases = (alias for part in session.parts for alias in part.facts.aliases)
    return dict.fromkeys((session.session_id, *aliases))


def _nothing_of_its_own(session: Joined, gaps: tuple[str, ...]) -> SessionCost | None:
    """Zero where all that was recorded is counted elsewhere; None where nothing was recorded."""
    if not session.ignored:
        return None
    native = all(one.call.native_nusd is not None for one in session.ignored)
    return SessionCost((), "native" if native else "estimate", 0, gaps)


def _recorded_total(session: Joined) -> int | None:
    """The agent's own total. In a copy nobody declared it starts from the original's: no use."""
    is_found_copy = session.kind != session.facts.kind
    return None if is_found_copy else session.facts.native_nusd


def _gaps(members: Iterable[Joined]) -> tuple[str, ...]:
    """Why the figures are a lower bound, each reason once, in order of appearance."""
    reasons: dict[str, None] = {}
    for member in members:
        for part in member.parts:
            reasons.update(dict.fromkeys(part.facts.gaps))
        for call in member.calls:
            reasons.update(dict.fromkeys(call.gaps))
    return tuple(reasons)


def _billed_runs(runs: Iterable[Run]) -> list[CostRecord]:
    return [run.cost for run in runs if run.cost is not None]


def _cost_of_runs(
    priced: Sequence[PricedCall], billed: Sequence[CostRecord], gaps: tuple[str, ...]
) -> SessionCost:
    """What the runs cost; their tokens only where the session itself tells of none."""
    cost = _spread(priced, sum(nano_usd(record) for record in billed), "run-index", gaps)
    if sum_tokens(one.call for one in priced).total:
        return cost
    return replace(cost, extra_tokens=sum(map(recorded_tokens, billed), Tokens()))


def nano_usd(record: CostRecord) -> int:
    """A recorded amount in the unit that sums are made in."""
    return round(record.total_usd * NANO)


def recorded_tokens(record: CostRecord) -> Tokens:
    """The tokens of a cost record, as buckets."""
    return Tokens(
        input=record.input_tokens,
        cache_read=record.cached_tokens or 0,
        cache_write=record.cache_write_tokens or 0,
        output=record.output_tokens,
        thinking=record.thinking_tokens,
    )


def _spread(
    priced: Sequence[PricedCall], recorded: int, source: CostSource, gaps: tuple[str, ...]
) -> SessionCost:
    """Share a recorded total among the calls by weight, so that groups add up to it exactly."""
    known = [one.nusd for one in priced if one.nusd is not None]
    weights = known if len(known) == len(priced) else [one.call.tokens.total for one in priced]
    whole = sum(weights)
    if whole == 0:
        return SessionCost(
            tuple(PricedCall(call=one.call, nusd=0) for one in priced), source, recorded, gaps
        )
    shares: list[PricedCall] = []
    given = passed = 0
    for one, weight in zip(priced, weights, strict=True):
        passed += weight
        share = recorded * passed // whole - given
        given += share
        shares.append(PricedCall(call=one.call, nusd=share))
    return SessionCost(tuple(shares), source, 0, gaps)
