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
    copies = ((ignored.call, ignored.owner) for ignored in member.ignored)
    for call, owner in (*((call, None) for call in member.calls), *copies):
        used = costs.rates_used(session, call)
        nusd = shares.get(id(call)) if owner is None else costs.price(session, call)
        usd = None if nusd is None else nusd / NANO
        yield ExplainedCall(
            session_id=member.session_id,
            call=call,
            counted=owner is None,
            reason=None if owner is None else f"a copy of a call that is counted in {owner}",
            counted_in=owner,
            price_source=used.origin,
            price_entry=used.entry,
            price_note=used.note,
            rates=used.by_kind,
            usd=usd if owner is None else None,
            uncounted_usd=None if owner is None else usd,
        )
