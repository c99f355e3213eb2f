"""Computes the cost of sessions. Each call is priced once, in the session that owns it.

The sources of a price are, in this order, the agent's own record, the run index and the price
catalogue. Money is integer nano-USD. A call without a known price has the price None, not zero, and
makes the sum incomplete. What the agent's own total does not cover is estimated (`recorded`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import partial
from typing import NamedTuple

from amux.annotations.events import Annotations
from amux.assembly.recorded import find_uncovered
from amux.assembly.session import AssembledSession, SourceSession, time_span
from amux.model.annotation import Note
from amux.model.cost import CostRecord, CostSource
from amux.model.incomplete import COST_PARTLY_RECORDED, UNPRICED_MODEL, USAGE_NOT_RECORDED
from amux.model.problems import Problem
from amux.model.trace import LineKind
from amux.model.usage import NANO, Call, Tokens, named_model, sum_tokens
from amux.pricing.rates import Rates, cost_nusd, usd_per_million
from amux.pricing.registry import ModelRegistry
from amux.run_index import RunIndex


def local_day(at: datetime, zone: tzinfo) -> date:
    """Return the day of a moment in a zone, or its own day if that is out of the range of dates."""
    try:
        return (at if at.tzinfo is zone else at.astimezone(zone)).date()
    except OverflowError:
        return at.date()


class CallSpan(NamedTuple):
    """Consecutive calls of one model in one day or hour; `first` is the time of the first one."""

    model: str | None
    first: datetime
    calls: slice


FindLimits = Callable[[datetime], tuple[datetime, datetime]]
"""Returns the start and end of the period that a moment belongs to."""


def call_spans(
    calls: Sequence[Call], limits: FindLimits, *, created: datetime
) -> Iterator[CallSpan]:
    """Yield the spans of the calls; a call without a time counts as made at `created`."""
    if not calls:
        return
    start, model, first = 0, calls[0].model, calls[0].at or created
    begin, end = limits(first)
    for index, call in enumerate(calls):
        at = call.at or created
        if call.model != model or not begin <= at < end:
            if index > start:
                yield CallSpan(named_model(model), first, slice(start, index))
            start, model, first = index, call.model, at
            begin, end = limits(at)
    yield CallSpan(named_model(model), first, slice(start, len(calls)))


def hour_limits(at: datetime) -> tuple[datetime, datetime]:
    """Return the start and end of the hour; an empty range at the end of time."""
    begin = full_hour(at)
    try:
        return begin, begin + timedelta(hours=1)
    except OverflowError:
        return begin, begin


def full_hour(at: datetime) -> datetime:
    """Return the start of the hour, in UTC."""
    moment = at if at.tzinfo is UTC else at.astimezone(UTC)
    return moment.replace(minute=0, second=0, microsecond=0)


def day_limits(at: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """Return the start and end of the day; an empty range if the zone's offset changes that day."""
    try:
        local = at.astimezone(zone)
        offset = local.utcoffset() or timedelta()
        midnight = datetime.combine(local.date(), time(), UTC) - offset
        ends = (midnight, midnight + timedelta(days=1))
        if isinstance(zone, timezone) or all(
            end.astimezone(zone).utcoffset() == offset for end in ends
        ):
            return ends
    except OverflowError:
        pass
    return at, at


@dataclass(slots=True, frozen=True)
class SessionCost:
    """The cost of a session, sub-agents included."""

    calls: Sequence[Call]
    shares: Sequence[int | None]  # nano-USD of each call; None: no price is known
    source: CostSource
    extra_nusd: int  # recorded for the session, but for no single call
    incomplete: tuple[str, ...]
    extra_tokens: Tokens = field(default_factory=Tokens)  # recorded likewise

    @property
    def nusd(self) -> int:
        """Return the sum of all known prices."""
        return self.extra_nusd + sum(share for share in self.shares if share is not None)

    def record(self) -> CostRecord:
        """Return the cost as a record for JSON."""
        tokens = self.extra_tokens + sum_tokens(self.calls)
        return cost_record(tokens, self.nusd, source=self.source, incomplete=self.incomplete)


def cost_record(
    tokens: Tokens, nusd: int, *, source: CostSource | None, incomplete: Sequence[str]
) -> CostRecord:
    """Return tokens and money as the record of the specification."""
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


class RatesUsed(NamedTuple):
    """USD per million tokens by kind, their origin, their entry there, and why it was used."""

    by_kind: dict[str, float] | None = None
    origin: str | None = None
    entry: str | None = None
    note: str | None = None


class AnnotationLookup:
    """The tags, stars and notes of sessions at one moment: those of runs and those of the user."""

    def __init__(self, runs: RunIndex, annotations: Annotations | None = None) -> None:
        self._runs = runs
        self.annotations = Annotations() if annotations is None else annotations

    def __bool__(self) -> bool:
        """Return whether any session may have a tag or a star."""
        return bool(self._runs.runs or self.annotations)

    def tags(self, agent: str, names: Sequence[str]) -> tuple[str, ...]:
        """Return the tags of a session by its ids and aliases; those of its runs come first."""
        of_runs = self._runs.tags_of(agent, names[0])
        if not self.annotations:
            return of_runs
        given = (self.annotations.tags_of(agent, name) for name in names)
        return tuple(dict.fromkeys((*of_runs, *(tag for tags in given for tag in tags))))

    def is_starred(self, agent: str, names: Sequence[str]) -> bool:
        """Return whether the user starred a session under one of its names."""
        return bool(self.annotations) and any(
            self.annotations.starred(agent, name) for name in names
        )

    def notes(self, session: AssembledSession) -> tuple[Note, ...]:
        """Return the user's notes on a session."""
        return tuple(
            note
            for name in session.names()
            for note in self.annotations.notes_of(session.agent, name)
        )

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Problems met while reading the run index and the annotations."""
        return (*self._runs.problems, *self.annotations.problems)


class CostCalculator:
    """Prices sessions, and looks up their annotations. Immutable, so an answer is of one moment."""

    def __init__(
        self, prices: ModelRegistry, runs: RunIndex, annotations: Annotations | None = None
    ) -> None:
        self.prices = prices
        self.runs = runs
        self.annotations = AnnotationLookup(runs, annotations)

    def with_annotations(self, annotations: Annotations) -> CostCalculator:
        """Return a calculator with other annotations; this one if they are the same object."""
        if annotations is self.annotations.annotations:
            return self
        return CostCalculator(self.prices, self.runs, annotations)

    def tags_of(self, session: AssembledSession) -> tuple[str, ...]:
        """Return the tags of a session."""
        return self.annotations.tags(session.agent, session.names())

    def is_starred(self, session: AssembledSession) -> bool:
        """Return whether the user starred a session."""
        return self.annotations.is_starred(session.agent, session.names())

    def price(self, session: AssembledSession, call: Call) -> int | None:
        """Return the price the agent recorded, else the catalogue's; None if both are missing."""
        if call.native_nusd is not None:
            return call.native_nusd
        rates = self._rates(session, call)
        return None if rates is None else cost_nusd(call.tokens, rates)

    def rates_used(self, session: AssembledSession, call: Call) -> RatesUsed:
        """Return the rates by which a call is priced; none if the agent recorded its price."""
        if call.native_nusd is not None:
            return RatesUsed(origin="native")
        rates = self._rates(session, call)
        if rates is None:
            return RatesUsed()
        tokens = call.tokens
        rate = rates.at(tokens.input + tokens.cache_read + tokens.cache_write)
        by_kind = {
            "input": usd_per_million(rate.input),
            "cacheRead": usd_per_million(rate.cache_read),
            "cacheWrite": usd_per_million(rate.cache_write),
            "cacheWrite1h": usd_per_million(rate.cache_write_1h),
            "output": usd_per_million(rate.output),
        }
        entry = "/".join(filter(None, (rates.provider, rates.model_ref)))
        return RatesUsed(by_kind, rates.origin, entry, rates.note or None)

    def _rates(self, session: AssembledSession, call: Call) -> Rates | None:
        model = named_model(call.model)
        if model is None:
            return None
        # A call without a recorded time has the price of the day on which its session began.
        day = local_day(call.at or time_span(session)[0], UTC)
        return self.prices.rates(session.agent, model, day)

    def _prices_of(self, session: AssembledSession, calls: Sequence[Call]) -> list[int | None]:
        """Return the `price` of each call; rates are looked up once per model and day."""
        prices: list[int | None] = []
        limits = partial(day_limits, zone=UTC)
        for model, first, span in call_spans(calls, limits, created=time_span(session)[0]):
            rates = None
            native: list[int | None] = [call.native_nusd for call in calls[span]]
            if model is not None and None in native:
                rates = self.prices.rates(session.agent, model, local_day(first, UTC))
            if rates is not None:
                native = [
                    cost_nusd(call.tokens, rates) if nusd is None else nusd
                    for call, nusd in zip(calls[span], native, strict=True)
                ]
            prices += native
        return prices

    def cost_of(self, session: AssembledSession) -> SessionCost | None:
        """Return the session's cost (0 if others count all its calls); None if it is unrecorded."""
        members = list(session.with_children())
        calls = [call for member in members for call in member.calls]
        prices = self._prices_of(session, calls)
        gaps = gaps_of(members)
        # The recorded total of an undeclared copy starts from that of the original: ignore it.
        is_declared = session.kind == session.facts.kind
        recorded = session.facts.native_nusd if is_declared else None
        if recorded is not None:
            return self._recorded_cost(session, calls, prices, recorded, gaps=gaps)
        if calls and all(call.native_nusd is not None for call in calls):
            return SessionCost(calls, prices, "native", 0, gaps)
        runs = self.runs.runs_of(session.agent, session.session_id)
        billed = [run.cost for run in runs if run.cost is not None]
        if billed:
            return _cost_of_runs(calls, prices, billed, gaps=gaps)
        if not calls:
            if not session.ignored:
                return None
            native = all(ignored.call.native_nusd is not None for ignored in session.ignored)
            return SessionCost((), (), "native" if native else "estimate", 0, gaps)
        if None in prices:
            gaps = (*gaps, UNPRICED_MODEL)
        return SessionCost(calls, prices, "estimate", 0, gaps)

    def _recorded_cost(
        self,
        session: AssembledSession,
        calls: Sequence[Call],
        prices: Sequence[int | None],
        recorded: int,
        *,
        gaps: tuple[str, ...],
    ) -> SessionCost:
        """Return the agent's own total, with an estimate of the calls that it does not cover."""
        covered = session.facts.native_tokens
        rest = None
        if covered is not None:
            rest = find_uncovered(calls, prices, covered, lambda call: self._rates(session, call))
        if rest is None:
            return _spread(calls, prices, recorded, source="native", gaps=gaps)
        gaps = (*gaps, COST_PARTLY_RECORDED) + (() if rest.is_priced else (UNPRICED_MODEL,))
        source: CostSource = "estimate" if rest.nusd else "native"
        return _spread(calls, prices, recorded + rest.nusd, source=source, gaps=gaps)


class CachedCosts(CostCalculator):
    """Computes the cost of each session once, as long as none of the sessions changes."""

    def __init__(self, costs: CostCalculator) -> None:
        super().__init__(costs.prices, costs.runs, costs.annotations.annotations)
        self._found: dict[AssembledSession, SessionCost | None] = {}

    def cost_of(self, session: AssembledSession) -> SessionCost | None:
        """Return the session's cost."""
        if session not in self._found:
            self._found[session] = super().cost_of(session)
        return self._found[session]


def gaps_of(members: Iterable[AssembledSession]) -> tuple[str, ...]:
    """Return the reasons why the figures are not exact, without duplicates."""
    reasons: dict[str, None] = {}
    for member in members:
        for part in member.sources:
            if part.facts.gaps:
                reasons.update(dict.fromkeys(_gaps_of_source(member, part)))
        for call in member.calls:
            if call.gaps:
                reasons.update(dict.fromkeys(call.gaps))
    return tuple(reasons)


def _gaps_of_source(member: AssembledSession, part: SourceSession) -> tuple[str, ...]:
    """Return the gaps of a source, without usage that a superseded copy lacks and another has."""
    if not part.source.superseded or USAGE_NOT_RECORDED not in part.facts.gaps:
        return part.facts.gaps
    if not any(each.facts.calls for each in member.sources if not each.source.superseded):
        return part.facts.gaps
    return tuple(gap for gap in part.facts.gaps if gap != USAGE_NOT_RECORDED)


def why_unknown(session: AssembledSession) -> tuple[str, ...]:
    """Return why a session has no recorded cost although a model was called; () if none was.

    An answer without usage and a call that was interrupted are gaps. A request that failed is not:
    it was not billed.
    """
    members = list(session.with_children())
    is_answered = any(LineKind.REPLY in member.trace.kinds for member in members)
    return gaps_of(members) or ((USAGE_NOT_RECORDED,) if is_answered else ())


def _cost_of_runs(
    calls: Sequence[Call],
    prices: Sequence[int | None],
    billed: Sequence[CostRecord],
    *,
    gaps: tuple[str, ...],
) -> SessionCost:
    """Return the cost of the runs, with their tokens if the session itself records none."""
    recorded = sum(nano_usd(record) for record in billed)
    cost = _spread(calls, prices, recorded, source="run-index", gaps=gaps)
    if any(call.tokens.total for call in calls):
        return cost
    return replace(cost, extra_tokens=sum(map(recorded_tokens, billed), Tokens()))


def nano_usd(record: CostRecord) -> int:
    """Return a recorded amount in nano-USD."""
    return round(record.total_usd * NANO)


def recorded_tokens(record: CostRecord) -> Tokens:
    """Return the tokens of a cost record."""
    return Tokens(
        input=record.input_tokens,
        cache_read=record.cached_tokens or 0,
        cache_write=record.cache_write_tokens or 0,
        output=record.output_tokens,
        thinking=record.thinking_tokens,
    )


def _spread(
    calls: Sequence[Call],
    prices: Sequence[int | None],
    recorded: int,
    *,
    source: CostSource,
    gaps: tuple[str, ...],
) -> SessionCost:
    """Divide a recorded total among the calls by weight; the shares add up to it exactly."""
    weights = [price for price in prices if price is not None]
    if len(weights) != len(calls):
        weights = [call.tokens.total for call in calls]
    total = sum(weights)
    if total == 0:
        return SessionCost(calls, [0] * len(calls), source, recorded, gaps)
    shares: list[int] = []
    shared = weight_so_far = 0
    for weight in weights:
        weight_so_far += weight
        shares.append(recorded * weight_so_far // total - shared)
        shared += shares[-1]
    return SessionCost(calls, shares, source, 0, gaps)
