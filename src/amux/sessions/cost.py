"""`total_cost`: money and tokens over many sessions, every billed call in it once.

`since`, `until` and `tags` choose sessions; `model` chooses the calls of that model. Groups by
model and day split a session by its calls; a session with several tags counts in each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo

from amux.model.cost import CostBreakdown, CostRecord, CostSummary, UnpricedModel
from amux.model.options import CostAggregationOptions
from amux.model.usage import NANO, Call, Tokens
from amux.run_index import Run
from amux.sessions.assemble import Assembly
from amux.sessions.costing import (
    UNPRICED,
    Coster,
    SessionCost,
    cost_record,
    nano_usd,
    recorded_tokens,
)
from amux.sessions.filters import has_any_tag, in_span
from amux.sessions.parts import Joined
from amux.sessions.views import models_of, primary_model, time_span

UNTAGGED = "untagged"
UNKNOWN_MODEL = "unknown"
_NO_TOKENS = Tokens()


@dataclass(slots=True, frozen=True)
class _Entry:
    """One piece of spending: a call, or an amount recorded without calls."""

    agent: str
    session: str | None
    model: str
    at: datetime
    tokens: Tokens
    nusd: int | None
    tags: tuple[str, ...]
    is_call: bool


@dataclass(slots=True)
class _Sum:
    """A running total."""

    nusd: int = 0
    tokens: Tokens = field(default_factory=Tokens)
    sessions: set[str] = field(default_factory=set[str])
    reasons: dict[str, None] = field(default_factory=dict[str, None])

    def add(self, entry: _Entry) -> None:
        self.tokens += entry.tokens
        if entry.nusd is None:
            self.reasons.setdefault(UNPRICED)
        else:
            self.nusd += entry.nusd
        if entry.session is not None:
            self.sessions.add(entry.session)

    def breakdown(self, key: str) -> CostBreakdown:
        return CostBreakdown(
            key=key,
            total_usd=self.nusd / NANO,
            input_tokens=self.tokens.input,
            output_tokens=self.tokens.output,
            thinking_tokens=self.tokens.thinking or 0,
            cached_tokens=self.tokens.cache_read,
            cache_write_tokens=self.tokens.cache_write,
            session_count=len(self.sessions),
            incomplete=tuple(self.reasons),
        )


class CostReport:
    """Collects spending and sums it up."""

    def __init__(
        self,
        coster: Coster,
        options: CostAggregationOptions,
        zone: tzinfo,
        *,
        by_call: bool = False,
    ) -> None:
        """With `by_call`, `since` and `until` choose calls by their time, not whole sessions."""
        self._coster = coster
        self._by_call = by_call
        self._options = options
        self._zone = zone
        self._total = _Sum()
        self._groups: dict[str, _Sum] = {}
        self._unpriced: dict[str, list[_Entry]] = {}
        self._unattributed: list[_Entry] = []
        self._known: set[tuple[str, str]] = set()
        self._run_count = 0

    def add_assembly(self, assembly: Assembly) -> None:
        """All sessions of one agent."""
        for session in assembly.everyone():
            self._known.add((session.agent, session.session_id))
        for session in assembly.sessions:
            self._add_session(session)
        if not self._options.tags:
            for loose in assembly.unattributed:
                self._add_unattributed(loose)

    def add_lost_runs(self) -> None:
        """Runs whose session is on no disk: the run index alone knows what they cost."""
        for run in self._coster.runs.runs:
            if (run.agent, run.session_id or "") in self._known or not self._run_fits(run):
                continue
            self._run_count += 1
            if run.cost is not None:
                self._count(_run_entry(run, run.cost))

    def summary(self) -> CostSummary:
        """The sum of everything added."""
        total = self._total.breakdown("")
        groups = {key: self._groups[key].breakdown(key) for key in sorted(self._groups)}
        return CostSummary(
            total_usd=total.total_usd,
            input_tokens=total.input_tokens,
            output_tokens=total.output_tokens,
            thinking_tokens=total.thinking_tokens,
            cached_tokens=total.cached_tokens,
            session_count=total.session_count,
            run_count=self._run_count,
            cache_write_tokens=total.cache_write_tokens,
            breakdowns=groups if self._options.group_by is not None else None,
            incomplete=total.incomplete,
            unpriced=tuple(
                _unpriced(model, found) for model, found in sorted(self._unpriced.items())
            ),
            unattributed=_loose_record(self._unattributed),
        )

    def _add_session(self, session: Joined) -> None:
        tags = self._coster.tags_of(session)
        created, _ = time_span(session)
        if not has_any_tag(tags, self._options.tags):
            return
        if not self._by_call and not in_span(created, self._options.since, self._options.until):
            return
        cost = self._coster.cost_of(session)
        found = _session_entries(session, cost, tags=tags, created=created)
        entries = [entry for entry in found if self._chosen(entry)]
        if not entries:
            if not self._counts_without_calls(session):
                return
            entries = [_empty_entry(session, tags=tags, created=created)]
        self._run_count += len(self._coster.runs.runs_of(session.agent, session.session_id))
        for entry in entries:
            self._count(entry)
        self._mark_incomplete(session, cost, entries)

    def _chosen(self, entry: _Entry) -> bool:
        options = self._options
        in_time = not self._by_call or in_span(entry.at, options.since, options.until)
        return in_time and options.model in (None, entry.model)

    def _counts_without_calls(self, session: Joined) -> bool:
        """A session without any usage still is a session, unless calls are what is chosen."""
        model = self._options.model
        return not self._by_call and (model is None or model in models_of(session))

    def _mark_incomplete(
        self, session: Joined, cost: SessionCost | None, entries: Iterable[_Entry]
    ) -> None:
        gaps = session.facts.gaps if cost is None else cost.incomplete
        reasons = dict.fromkeys(reason for reason in gaps if reason != UNPRICED)
        self._total.reasons.update(reasons)
        for key in {key for entry in entries for key in self._keys(entry)}:
            self._groups[key].reasons.update(reasons)

    def _add_unattributed(self, loose: Joined) -> None:
        options = self._options
        created, _ = time_span(loose)
        for call in loose.calls:
            entry = _call_entry(
                loose, call, self._coster.price(loose.agent, call), tags=(), created=created
            )
            fits = in_span(entry.at, options.since, options.until)
            if fits and options.model in (None, entry.model):
                self._unattributed.append(entry)
                self._count(entry)

    def _count(self, entry: _Entry) -> None:
        self._total.add(entry)
        for key in self._keys(entry):
            self._groups.setdefault(key, _Sum()).add(entry)
        if entry.nusd is None:
            self._unpriced.setdefault(entry.model, []).append(entry)

    def _keys(self, entry: _Entry) -> Sequence[str]:
        match self._options.group_by:
            case "agent":
                return (entry.agent,)
            case "model":
                return (entry.model,)
            case "day":
                return (entry.at.astimezone(self._zone).date().isoformat(),)
            case "tag":
                return entry.tags or (UNTAGGED,)
            case None:
                return ()

    def _run_fits(self, run: Run) -> bool:
        options = self._options
        return (
            options.agent in (None, run.agent)
            and in_span(run.at, options.since, options.until)
            and options.model in (None, run.model)
            and has_any_tag(run.tags, options.tags)
        )


def _session_entries(
    session: Joined, cost: SessionCost | None, *, tags: tuple[str, ...], created: datetime
) -> Iterator[_Entry]:
    if cost is None:
        return
    for priced in cost.calls:
        yield _call_entry(session, priced.call, priced.nusd, tags=tags, created=created)
    if cost.extra_nusd or cost.extra_tokens.total:
        yield _empty_entry(
            session,
            tags=tags,
            created=created,
            tokens=cost.extra_tokens,
            nusd=cost.extra_nusd,
        )


def _empty_entry(
    session: Joined,
    *,
    tags: tuple[str, ...],
    created: datetime,
    tokens: Tokens = _NO_TOKENS,
    nusd: int = 0,
) -> _Entry:
    """A session, or an amount recorded for it, without any call to go by."""
    return _Entry(
        agent=session.agent,
        session=f"{session.agent}:{session.session_id}",
        model=primary_model(session) or UNKNOWN_MODEL,
        at=created,
        tokens=tokens,
        nusd=nusd,
        tags=tags,
        is_call=False,
    )


def _call_entry(
    session: Joined, call: Call, nusd: int | None, *, tags: tuple[str, ...], created: datetime
) -> _Entry:
    return _Entry(
        agent=session.agent,
        session=f"{session.agent}:{session.session_id}" if session.attributed else None,
        model=call.model or UNKNOWN_MODEL,
        at=call.at or created,
        tokens=call.tokens,
        nusd=nusd,
        tags=tags,
        is_call=True,
    )


def _run_entry(run: Run, cost: CostRecord) -> _Entry:
    return _Entry(
        agent=run.agent,
        session=f"{run.agent}:{run.session_id}" if run.session_id else None,
        model=run.model or UNKNOWN_MODEL,
        at=run.at,
        tokens=recorded_tokens(cost),
        nusd=nano_usd(cost),
        tags=run.tags,
        is_call=False,
    )


def _unpriced(model: str, entries: Sequence[_Entry]) -> UnpricedModel:
    return UnpricedModel(
        model=model,
        input_tokens=sum(entry.tokens.input for entry in entries),
        output_tokens=sum(entry.tokens.output for entry in entries),
        calls=sum(entry.is_call for entry in entries),
    )


def _loose_record(entries: Sequence[_Entry]) -> CostRecord | None:
    if not entries:
        return None
    tokens = Tokens()
    for entry in entries:
        tokens += entry.tokens
    unpriced = any(entry.nusd is None for entry in entries)
    return cost_record(
        tokens,
        sum(entry.nusd or 0 for entry in entries),
        source="estimate",
        incomplete=(UNPRICED,) if unpriced else (),
    )
