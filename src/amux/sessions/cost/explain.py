"""Explain the cost of a session: every counted call, every ignored copy and every rate."""

from __future__ import annotations

from collections.abc import Iterator

from amux.assembly.cost import CostCalculator, why_unknown
from amux.assembly.session import AssembledSession
from amux.model.ids import unified_id
from amux.model.reports import CostExplanation, ExplainedCall
from amux.model.usage import NANO


def explain_cost(session: AssembledSession, costs: CostCalculator) -> CostExplanation:
    """Return the calls, copies and rates that make up the cost, sub-agents included."""
    cost = costs.cost_of(session)
    shares: dict[int, int | None] = {}
    if cost is not None:
        shares.update(zip(map(id, cost.calls), cost.shares, strict=True))
    explained = [
        entry
        for member in session.with_children()
        for entry in _explain_member(session, member, costs, shares)
    ]
    return CostExplanation(
        unified_id=unified_id(session.agent, session.session_id),
        title=session.title,
        cost=None if cost is None else cost.record(),
        calls=tuple(explained),
        repeats=sum(entry.call.repeats for entry in explained if entry.counted),
        incomplete=why_unknown(session) if cost is None else cost.incomplete,
    )


def _explain_member(
    session: AssembledSession,
    member: AssembledSession,
    costs: CostCalculator,
    shares: dict[int, int | None],
) -> Iterator[ExplainedCall]:
    for call in member.calls:
        share = shares.get(id(call))
        rates, origin = costs.rates_used(session, call)
        yield ExplainedCall(
            session_id=member.session_id,
            call=call,
            counted=True,
            price_source=origin,
            rates=rates,
            usd=None if share is None else share / NANO,
        )
    for ignored in member.ignored:
        price = costs.price(session, ignored.call)
        rates, origin = costs.rates_used(session, ignored.call)
        yield ExplainedCall(
            session_id=member.session_id,
            call=ignored.call,
            counted=False,
            reason=f"a copy of a call that is counted in {ignored.owner}",
            counted_in=ignored.owner,
            price_source=origin,
            rates=rates,
            uncounted_usd=None if price is None else price / NANO,
        )
