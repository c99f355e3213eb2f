"""Why a session costs what it costs: every counted call, every ignored copy, every rate."""

from __future__ import annotations

from collections.abc import Iterator

from amux.model.base import Model
from amux.model.cost import CostRecord
from amux.model.ids import unified_id
from amux.model.usage import NANO, Call
from amux.sessions.costing import Coster, why_unknown
from amux.sessions.parts import Joined


class ExplainedCall(Model, frozen=True, kw_only=True):
    """One record of a billed call: counted here, or why not."""

    session_id: str
    call: Call
    counted: bool
    reason: str | None = None  # why it is not counted here
    counted_in: str | None = None  # unified id of the session that counts it instead
    price_source: str | None = None  # native, or the catalogue
    rates: dict[str, float] | None = None  # USD per million tokens, by bucket
    usd: float | None = None  # its share of the session's cost
    uncounted_usd: float | None = None  # what a copy's call costs by itself; no part of any sum


class CostExplanation(Model, frozen=True, kw_only=True):
    """A session's cost, taken apart."""

    unified_id: str
    title: str
    cost: CostRecord | None = None
    calls: tuple[ExplainedCall, ...]
    repeats: int  # further records of counted calls that were passed over
    incomplete: tuple[str, ...] = ()


def explain_cost(session: Joined, coster: Coster) -> CostExplanation:
    """Take the session's cost apart, sub-agents included."""
    cost = coster.cost_of(session)
    shares: dict[int, int | None] = {}
    if cost is not None:
        shares.update(zip(map(id, cost.calls), cost.shares, strict=True))
    explained = [
        entry
        for member in session.with_children()
        for entry in _explain_member(session, member, coster, shares)
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
    session: Joined, member: Joined, coster: Coster, shares: dict[int, int | None]
) -> Iterator[ExplainedCall]:
    for call in member.calls:
        share = shares.get(id(call))
        rates, origin = coster.rates_used(session, call)
        yield ExplainedCall(
            session_id=member.session_id,
            call=call,
            counted=True,
            price_source=origin,
            rates=rates,
            usd=None if share is None else share / NANO,
        )
    for ignored in member.ignored:
        price = coster.price(session, ignored.call)
        rates, origin = coster.rates_used(session, ignored.call)
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
