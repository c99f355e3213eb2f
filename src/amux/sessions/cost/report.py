"""`total_cost`: money and tokens over many sessions, every billed call in it once.

A report is a sum over cells. `since`, `until` and `tags` choose sessions; `model` chooses what was
spent on that model, as the group of that model has it. A session with several tags counts in the
group of each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, tzinfo
from itertools import chain

from amux.assembly.assemble import Assembly
from amux.assembly.cost import CostCalculator, cost_record, local_day, nano_usd, recorded_tokens
from amux.assembly.ledger import UNKNOWN_MODEL, LedgerEntry, Spending, SpendTotals, spending_of
from amux.model.cost import CostBreakdown, CostRecord, CostSummary, UnpricedModel
from amux.model.ids import unified_id
from amux.model.incomplete import UNPRICED_MODEL, UNREADABLE_SOURCE, USAGE_NOT_RECORDED
from amux.model.list_filter import has_any_tag, in_span
from amux.model.options import CostAggregationOptions, group_names
from amux.model.problems import Problem, in_order
from amux.model.usage import NANO
from amux.run_index import RecordedRun
from amux.sessions.cost.grouping import Grouping, Keys, joined_key


@dataclass(slots=True)
class _Sum:
    """A running total."""

    spent: SpendTotals = field(default_factory=SpendTotals)
    sessions: set[str] = field(default_factory=set[str])
    reasons: set[str] = field(default_factory=set[str])

    def add(self, cell: LedgerEntry) -> None:
        self.spent.add(cell)
        self.reasons.update(cell.reasons)
        if cell.address is not None:
            self.sessions.add(cell.address)

    @property
    def incomplete(self) -> tuple[str, ...]:
        """Why it is a lower bound; in an order that does not depend on that of the cells."""
        unpriced = {UNPRICED_MODEL} if self.spent.unpriced_calls else set[str]()
        return tuple(sorted(self.reasons | unpriced))

    def breakdown(self, keys: Keys) -> CostBreakdown:
        spent = self.spent
        return CostBreakdown(
            key=joined_key(keys),
            total_usd=spent.nusd / NANO,
            input_tokens=spent.input,
            output_tokens=spent.output,
            thinking_tokens=spent.thinking or 0,
            cached_tokens=spent.cache_read,
            cache_write_tokens=spent.cache_write,
            session_count=len(self.sessions),
            incomplete=self.incomplete,
            keys=keys,
        )


class CostReport:
    """Collects spending and sums it up."""

    def __init__(
        self,
        costs: CostCalculator,
        options: CostAggregationOptions,
        zone: tzinfo,
        *,
        first_day: date | None = None,
    ) -> None:
        """With `first_day` only what was spent since then counts, whenever a session began.

        A session of which no spending is known counts for the day on which it began.
        """
        self._costs = costs
        self._first_day = None if first_day is None else first_day.isoformat()
        self._options = options
        self._zone = zone
        self._grouping = Grouping(group_names(options.group_by))
        self._is_by_session = "session" in group_names(options.group_by)
        self._total = _Sum()
        self._groups: dict[Keys, _Sum] = {}
        self._unpriced: dict[str, SpendTotals] = {}
        self._unattributed: _Sum | None = None
        self._known: set[tuple[str, str]] = set()
        self._counted: set[tuple[str, str]] = set()  # sessions whose runs were
        self._run_count = 0
        self._unread: dict[str, set[Problem]] = {}  # by agent: sources that may hold anything

    def add_assembly(self, assembly: Assembly) -> None:
        """All sessions of one agent."""
        self.add_spending(assembly.agent, self.spending_of(assembly))

    def spending_of(self, assembly: Assembly) -> Spending:
        """All that some sessions spent, whatever is asked for."""
        return spending_of(assembly, self._costs, self._zone)

    def add_spending(self, agent: str, spending: Spending) -> None:
        """Add the spending of some sessions of an agent; the runs of these are not lost."""
        self._known.update((agent, session_id) for session_id in spending.session_ids)
        for cell in spending.entries:
            self.add_entry(cell)
        for problem in spending.problems:
            self._unread.setdefault(agent, set()).add(problem)

    def add_entry(self, cell: LedgerEntry) -> None:
        """One cell, if it fits the options."""
        if self._options.model not in (None, cell.model):
            return
        if not self._in_span(cell.created_at) or self._is_too_early(cell):
            return
        names = cell.names
        tags = self._costs.annotations.tags(cell.agent, names) if names else ()
        if not has_any_tag(tags, self._options.tags):
            return
        if not names:
            self._unattributed = self._unattributed or _Sum()
            self._unattributed.add(cell)
        elif (cell.agent, names[0]) not in self._counted:  # a run knows no more than the id
            self._counted.add((cell.agent, names[0]))
            self._run_count += len(self._costs.runs.runs_of(cell.agent, names[0]))
        self._count(cell, tags)

    def add_lost_runs(self) -> None:
        """Runs whose session is on no disk: the run index alone knows what they cost."""
        for run in self._costs.runs.runs:
            if (run.agent, run.session_id or "") in self._known or not self._run_fits(run):
                continue
            self._run_count += 1
            if run.cost is not None:
                self._count(_run_entry(run, run.cost, self._zone), run.tags)

    def summary(self) -> CostSummary:
        """The sum of everything added."""
        self._mark_what_may_be_missing()
        total = self._total.breakdown(("",))
        groups = [self._groups[keys].breakdown(keys) for keys in sorted(self._groups)]
        return CostSummary(
            total_usd=total.total_usd,
            input_tokens=total.input_tokens,
            output_tokens=total.output_tokens,
            thinking_tokens=total.thinking_tokens,
            cached_tokens=total.cached_tokens,
            session_count=total.session_count,
            run_count=self._run_count,
            cache_write_tokens=total.cache_write_tokens,
            breakdowns={group.key: group for group in groups} if self._grouping else None,
            incomplete=total.incomplete,
            unpriced=tuple(
                _unpriced(model, spent) for model, spent in sorted(self._unpriced.items())
            ),
            unattributed=None if self._unattributed is None else _record(self._unattributed),
            problems=in_order((*chain(*self._unread.values()), *self._costs.annotations.problems)),
        )

    def _mark_what_may_be_missing(self) -> None:
        """What was not read may belong to any group but one of other agents or sessions."""
        if not self._unread:
            return
        self._total.reasons.add(UNREADABLE_SOURCE)
        if self._is_by_session:
            return
        names = group_names(self._options.group_by)
        for keys, group in self._groups.items():
            if "agent" not in names or keys[names.index("agent")] in self._unread:
                group.reasons.add(UNREADABLE_SOURCE)

    def _count(self, cell: LedgerEntry, tags: Sequence[str]) -> None:
        self._total.add(cell)
        for keys in self._grouping.keys(cell, tags):
            group = self._groups.get(keys)
            if group is None:
                group = self._groups[keys] = _Sum()
            group.add(cell)
            if cell.kind == "unrecorded" and self._is_by_session and not cell.reasons:
                group.reasons.add(
                    USAGE_NOT_RECORDED
                )  # unknown by itself, though nothing lacks in a sum
        if cell.unpriced_calls:
            self._unpriced.setdefault(cell.model, SpendTotals()).add(cell)

    def _in_span(self, moment: datetime) -> bool:
        return in_span(moment, self._options.since, self._options.until)

    def _is_too_early(self, cell: LedgerEntry) -> bool:
        """Whether it is of a day before the first that counts."""
        return self._first_day is not None and cell.day < self._first_day

    def _run_fits(self, run: RecordedRun) -> bool:
        options = self._options
        first = self._first_day
        return (
            options.agent in (None, run.agent)
            and self._in_span(run.at)
            and (first is None or local_day(run.at, self._zone).isoformat() >= first)
            and options.model in (None, run.model)
            and has_any_tag(run.tags, options.tags)
        )


def _run_entry(run: RecordedRun, cost: CostRecord, zone: tzinfo) -> LedgerEntry:
    tokens = recorded_tokens(cost)
    return LedgerEntry(
        agent=run.agent,
        session=unified_id(run.agent, run.session_id) if run.session_id else None,
        created_at=run.at,
        cwd=None,
        day=local_day(run.at, zone).isoformat(),
        model=run.model or UNKNOWN_MODEL,
        input=tokens.input,
        cache_read=tokens.cache_read,
        cache_write=tokens.cache_write,
        output=tokens.output,
        thinking=tokens.thinking,
        nusd=nano_usd(cost),
    )


def _unpriced(model: str, spent: SpendTotals) -> UnpricedModel:
    return UnpricedModel(
        model=model,
        input_tokens=spent.unpriced_input,
        output_tokens=spent.unpriced_output,
        calls=spent.unpriced_calls,
    )


def _record(total: _Sum) -> CostRecord:
    spent = total.spent
    return cost_record(spent.tokens, spent.nusd, source="estimate", incomplete=total.incomplete)
