"""The tokens and the cost of a thread, in counters that are reset at different times.

`billing` is never reset. `context` counts since the conversation was last emptied. The cost of
making summaries has a bucket of its own: it is part of `billing`, but of no turn.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from amux.model.usage import NANO, Tokens
from amux.rollout import control
from amux.rollout.messages import usage_of
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

    def plus(self, tokens: Tokens, cost_nusd: int | None) -> UsageTotals:
        """Return the totals with one more call."""
        return UsageTotals(
            calls=self.calls + 1,
            tokens=self.tokens + tokens,
            cost_nusd=self.cost_nusd + (cost_nusd or 0),
            unpriced_calls=self.unpriced_calls + (cost_nusd is None),
        )


class CostTracker(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of a thread: everything billed, the current context, and compactions alone."""

    billing: UsageTotals = UsageTotals()
    context: UsageTotals = UsageTotals()
    compaction: UsageTotals = UsageTotals()


def track_costs(records: Iterable[Record], payload_format: str, *, copied: int = 0) -> CostTracker:
    """Return the usage of a thread from its records, oldest first; copies are not counted."""
    billing = context = compaction = UsageTotals()
    for record in records:
        found = control.event_of(record)
        if found is not None and found[0] == control.HIDE and found[1].get("all") is True:
            context = UsageTotals()
        usage = usage_of(record, payload_format) if record.seq > copied + 1 else None
        if usage is None:
            continue
        billing = billing.plus(usage.tokens, usage.cost_nusd)
        if record.type == "compacted":
            compaction = compaction.plus(usage.tokens, usage.cost_nusd)
        else:
            context = context.plus(usage.tokens, usage.cost_nusd)
    return CostTracker(billing=billing, context=context, compaction=compaction)
