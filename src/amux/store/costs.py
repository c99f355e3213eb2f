"""The tokens and the cost of a thread, in counters that are reset at different times.

`billing` is never reset. `context` counts since the conversation was last emptied. The cost of
making summaries has a bucket of its own: it is part of `billing`, but of no turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from amux.model.usage import NANO, Tokens
from amux.rollout import control
from amux.rollout.messages import RecordUsage, usage_of
from amux.rollout.records import Record


class UsageTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Model calls with their tokens; `cost_nusd` sums the costs that were recorded."""

    calls: int = 0
    tokens: Tokens = Tokens()
    cost_nusd: int = 0
    unpriced_calls: int = 0  # calls without a recorded cost

    @property
    def cost_usd(self) -> float:
        """Return the recorded cost in USD."""
        return self.cost_nusd / NANO

    def plus(self, calls: Sequence[RecordUsage]) -> UsageTotals:
        """Return the totals with further calls."""
        tokens = [call.tokens for call in calls]
        thinking = [each.thinking for each in tokens if each.thinking is not None]
        added = Tokens(
            input=sum(each.input for each in tokens),
            cache_read=sum(each.cache_read for each in tokens),
            cache_write=sum(each.cache_write for each in tokens),
            cache_write_1h=sum(each.cache_write_1h for each in tokens),
            output=sum(each.output for each in tokens),
            thinking=sum(thinking) if thinking else None,
        )
        return UsageTotals(
            calls=self.calls + len(calls),
            tokens=self.tokens + added,
            cost_nusd=self.cost_nusd + sum(call.cost_nusd or 0 for call in calls),
            unpriced_calls=self.unpriced_calls + sum(call.cost_nusd is None for call in calls),
        )


class CostTracker(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of a thread: everything billed, the current context, and compactions alone."""

    billing: UsageTotals = UsageTotals()
    context: UsageTotals = UsageTotals()
    compaction: UsageTotals = UsageTotals()


_NOTHING: Final = CostTracker()


def track_costs(
    records: Iterable[Record],
    payload_format: str,
    *,
    copied: int = 0,
    start: CostTracker = _NOTHING,
) -> CostTracker:
    """Return the usage of a thread from its records, oldest first; copies are not counted.

    `start` is the usage of the records before those that are given.
    """
    turns: list[RecordUsage] = []
    summaries: list[RecordUsage] = []
    context, before = start.context, 0
    for record in records:
        found = control.event_of(record)
        if found is not None and found[0] == control.HIDE and found[1].get("all") is True:
            context, before = UsageTotals(), len(turns)
        usage = usage_of(record, payload_format) if record.seq > copied + 1 else None
        if usage is not None:
            _count(summaries if record.type == "compacted" else turns, usage)
    return CostTracker(
        billing=start.billing.plus([*turns, *summaries]),
        context=context.plus(turns[before:]),
        compaction=start.compaction.plus(summaries),
    )


def _count(calls: list[RecordUsage], usage: RecordUsage) -> None:
    """Add a call; of several records of one call the one with the largest output counts."""
    last = calls[-1] if calls else None
    if last is None or usage.key is None or last.key != usage.key:
        calls.append(usage)
    elif usage.tokens.output >= last.tokens.output:
        calls[-1] = usage
