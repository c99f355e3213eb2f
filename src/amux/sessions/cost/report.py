"""`total_cost`: the money and tokens of many sessions; every billed call counts once.

A report is a sum over ledger entries. `since`, `until` and `tags` select sessions; `model` selects
the entries of that model. A session with several tags counts in the group of each tag.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, tzinfo
from itertools import chain

from amux.assembly.assemble import Assembly
from amux.assembly.cost import CostCalculator, cost_record, local_day, nano_usd, recorded_tokens
from amux.assembly.ledger import LedgerEntry, Spending, SpendTotals, spending_of
from amux.model.cost import (
    CostBreakdown,
    CostRecord,
    CostSource,
    CostSummary,
    UnattributedCalls,
    UnpricedModel,
)
from amux.model.ids import unified_id
from amux.model.incomplete import UNPRICED_MODEL, UNREADABLE_SOURCE
from amux.model.list_filter import has_any_tag, in_span
from amux.model.options import CostAggregationOptions, group_names
from amux.model.problems import Problem, in_order
from amux.model.usage import NANO, NO_MODEL, Purpose, named_model
from amux.run_index import RecordedRun
from amux.sessions.cost.grouping import Grouping, Keys, joined_key


@dataclass(slots=True)
class _Sum:
    """A running total."""

    spent: SpendTotals = field(default_factory=SpendTotals)
    sessions: set[str] = field(default_factory=set[str])
    uncalled: set[str] = field(default_factory=set[str])
    reasons: set[str] = field(default_factory=set[str])

    def add(self, entry: LedgerEntry) -> None:
        self.spent.add(entry)
        self.reasons.update(entry.reasons)
        if entry.address is not None:
            self.sessions.add(entry.address)
            if entry.kind == "uncalled":
                self.uncalled.add(entry.address)

    @property
    def incomplete(self) -> tuple[str, ...]:
        """Why the sum is not exact, in an order that does not depend on that of the entries."""
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
            sessions_without_calls=len(self.uncalled),
        )


@dataclass(slots=True)
class _Unattributed:
    """A running total of the calls of no session."""

    sum: _Sum = field(default_factory=_Sum)
    calls: Counter[tuple[str, Purpose]] = field(default_factory=Counter[tuple[str, Purpose]])
    is_native: bool = True

    def add(self, entry: LedgerEntry) -> None:
        self.sum.add(entry)
        self.calls[entry.agent, entry.purpose] += entry.calls
        self.is_native = self.is_native and entry.is_native

    def record(self) -> CostRecord:
        spent = self.sum.spent
        source: CostSource = "native" if self.is_native else "estimate"
        return cost_record(spent.tokens, spent.nusd, source=source, incomplete=self.sum.incomplete)

    def purposes(self) -> tuple[UnattributedCalls, ...]:
        return tuple(
            UnattributedCalls(agent=agent, purpose=purpose, calls=number)
            for (agent, purpose), number in sorted(self.calls.items())
        )


class CostReport:
    """Collects spending and sums it up by group."""

    def __init__(
        self,
        costs: CostCalculator,
        options: CostAggregationOptions,
        zone: tzinfo,
        *,
        first_day: date | None = None,
    ) -> None:
        """With `first_day`, only spending since that day counts, whenever a session began.

        A session without recorded spending counts for the day on which it began.
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
        self._unattributed: _Unattributed | None = None
        self._found: set[tuple[str, str]] = set()  # agent and id of all sessions
        self._run_counted: set[tuple[str, str]] = set()  # sessions whose runs were counted
        self._run_count = 0
        self._unread: dict[str, set[Problem]] = {}  # by agent: the problems of unreadable sources

    def add_assembly(self, assembly: Assembly) -> None:
        """Add the spending of the sessions of an assembly."""
        self.add_spending(assembly.agent, self.spending_of(assembly))

    def spending_of(self, assembly: Assembly) -> Spending:
        """Return the spending of some sessions, whatever the options of the report."""
        return spending_of(assembly, self._costs, self._zone)

    def add_spending(self, agent: str, spending: Spending) -> None:
        """Add the spending of some sessions of an agent; the runs of these are not lost."""
        self._found.update((agent, session_id) for session_id in spending.session_ids)
        for entry in spending.entries:
            self.add_entry(entry)
        if spending.problems:
            self._unread.setdefault(agent, set()).update(spending.problems)

    def add_entry(self, entry: LedgerEntry) -> None:
        """Add one entry if it matches the options."""
        is_too_early = self._first_day is not None and entry.day < self._first_day
        if self._options.model not in (None, entry.model) or is_too_early:
            return
        if not in_span(entry.created_at, self._options.since, self._options.until):
            return
        names = entry.names
        tags = self._costs.annotations.tags(entry.agent, names) if names else ()
        if not has_any_tag(tags, self._options.tags):
            return
        if not names:
            self._unattributed = self._unattributed or _Unattributed()
            self._unattributed.add(entry)
        elif (entry.agent, names[0]) not in self._run_counted:  # a run records only the id
            self._run_counted.add((entry.agent, names[0]))
            self._run_count += len(self._costs.runs.runs_of(entry.agent, names[0]))
        self._count(entry, tags)

    def add_lost_runs(self) -> None:
        """Add the runs whose session does not exist: only the run index has their cost."""
        for run in self._costs.runs.runs:
            if (run.agent, run.session_id or "") in self._found or not self._matches(run):
                continue
            self._run_count += 1
            if run.cost is not None:
                self._count(_run_entry(run, run.cost, self._zone), run.tags)

    def summary(self) -> CostSummary:
        """Return the sum of everything added."""
        self._add_unreadable_reasons()
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
                UnpricedModel(
                    model=model,
                    input_tokens=spent.unpriced_input,
                    output_tokens=spent.unpriced_output,
                    calls=spent.unpriced_calls,
                )
                for model, spent in sorted(self._unpriced.items())
            ),
            unattributed=None if self._unattributed is None else self._unattributed.record(),
            unattributed_calls=() if self._unattributed is None else self._unattributed.purposes(),
            sessions_without_calls=total.sessions_without_calls,
            problems=in_order((*chain(*self._unread.values()), *self._costs.annotations.problems)),
        )

    def _add_unreadable_reasons(self) -> None:
        """Mark the groups that an unreadable source may belong to: not other agents, no session."""
        if not self._unread:
            return
        self._total.reasons.add(UNREADABLE_SOURCE)
        if self._is_by_session:
            return
        names = group_names(self._options.group_by)
        for keys, group in self._groups.items():
            if "agent" not in names or keys[names.index("agent")] in self._unread:
                group.reasons.add(UNREADABLE_SOURCE)

    def _count(self, entry: LedgerEntry, tags: Sequence[str]) -> None:
        self._total.add(entry)
        for keys in self._grouping.keys(entry, tags):
            group = self._groups.get(keys)
            if group is None:
                group = self._groups[keys] = _Sum()
            group.add(entry)
        if entry.unpriced_calls:
            self._unpriced.setdefault(entry.model, SpendTotals()).add(entry)

    def _matches(self, run: RecordedRun) -> bool:
        options, first = self._options, self._first_day
        return (
            options.agent in (None, run.agent)
            and in_span(run.at, options.since, options.until)
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
        model=named_model(run.model) or NO_MODEL,
        input=tokens.input,
        cache_read=tokens.cache_read,
        cache_write=tokens.cache_write,
        output=tokens.output,
        thinking=tokens.thinking,
        nusd=nano_usd(cost),
    )
