"""A naive implementation of a cost report, to compare with: one entry per call, no ledger.

It shares no code with the ledger and with the modules that use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from amux.assembly.assemble import Assembly
from amux.assembly.cost import CostCalculator, SessionCost
from amux.assembly.session import AssembledSession, time_span
from amux.assembly.summary import cwd_of, primary_model
from amux.model.cost import (
    CostBreakdown,
    CostRecord,
    CostSummary,
    UnattributedCalls,
    UnpricedModel,
)
from amux.model.options import CostAggregationOptions, GroupBy, group_names
from amux.model.usage import NANO, Call, Purpose, Tokens

NO_MODEL, NO_CALLS = "(calls that name no model)", "(sessions without calls)"


@dataclass(frozen=True)
class Entry:
    """A call, or an amount recorded without one."""

    agent: str
    session: str | None
    model: str
    at: datetime
    tokens: Tokens
    nusd: int | None
    tags: tuple[str, ...]
    cwd: str | None
    reasons: tuple[str, ...]
    is_call: bool
    is_uncalled: bool = False
    purpose: Purpose = "main"
    is_native: bool = False


def slow_report(
    assemblies: Iterable[Assembly],
    coster: CostCalculator,
    options: CostAggregationOptions,
    zone: tzinfo,
) -> CostSummary:
    """All sessions and unattributed calls that fit; lost runs are left out."""
    attributed: list[Entry] = []
    loose: list[Entry] = []
    runs = 0
    for assembly in assemblies:
        for session in assembly.sessions:
            found = session_entries(session, coster, options)
            attributed += found
            if found:
                runs += len(coster.runs.runs_of(session.agent, session.session_id))
        if not options.tags:
            loose += loose_entries(assembly, coster, options)
    entries = [*attributed, *loose]
    names = group_names(options.group_by)
    total = breakdown((), entries)
    return CostSummary(
        total_usd=total.total_usd,
        input_tokens=total.input_tokens,
        output_tokens=total.output_tokens,
        thinking_tokens=total.thinking_tokens,
        cached_tokens=total.cached_tokens,
        session_count=total.session_count,
        run_count=runs,
        cache_write_tokens=total.cache_write_tokens,
        breakdowns=groups(entries, names, zone) if names else None,
        incomplete=total.incomplete,
        unpriced=tuple(unpriced(entries)),
        unattributed=record(loose) if loose else None,
        unattributed_calls=tuple(purposes(loose)),
        sessions_without_calls=total.sessions_without_calls,
    )


def purposes(loose: Sequence[Entry]) -> Iterator[UnattributedCalls]:
    found: set[tuple[str, Purpose]] = {(entry.agent, entry.purpose) for entry in loose}
    for agent, purpose in sorted(found):
        calls = [entry for entry in loose if (entry.agent, entry.purpose) == (agent, purpose)]
        yield UnattributedCalls(agent=agent, purpose=purpose, calls=len(calls))


def session_entries(
    session: AssembledSession, coster: CostCalculator, options: CostAggregationOptions
) -> list[Entry]:
    tags = coster.tags_of(session)
    created = time_span(session)[0]
    cost = coster.cost_of(session)
    if options.tags and not set(options.tags) & set(tags):
        return []
    if not in_span(created, options):
        return []
    found = [*all_entries(session, cost, tags=tags, created=created)]
    if not found:
        found = [without_call(session, cost, tags=tags, created=created)]
    return [entry for entry in found if options.model in (None, entry.model)]


def all_entries(
    session: AssembledSession, cost: SessionCost | None, *, tags: tuple[str, ...], created: datetime
) -> Iterator[Entry]:
    if cost is None:
        return
    for call, nusd in zip(cost.calls, cost.shares, strict=True):
        yield of_call(session, call, nusd, tags=tags, created=created, reasons=known(cost))
    if cost.extra_nusd or cost.extra_tokens.total:
        yield without_call(
            session,
            cost,
            tags=tags,
            created=created,
            tokens=cost.extra_tokens,
            nusd=cost.extra_nusd,
        )


def unknown(session: AssembledSession) -> tuple[str, ...]:
    parts = (part for member in session.with_children() for part in member.sources)
    return tuple(dict.fromkeys(gap for part in parts for gap in part.facts.gaps))


def known(cost: SessionCost) -> tuple[str, ...]:
    return tuple(reason for reason in cost.incomplete if reason != "unpriced-model")


def of_call(
    session: AssembledSession,
    call: Call,
    nusd: int | None,
    *,
    tags: tuple[str, ...],
    created: datetime,
    reasons: tuple[str, ...],
) -> Entry:
    return Entry(
        agent=session.agent,
        session=f"{session.agent}:{session.session_id}" if session.attributed else None,
        model=NO_MODEL if call.model in (None, "unknown") else call.model,
        at=call.at or created,
        tokens=call.tokens,
        nusd=nusd,
        tags=tags,
        cwd=cwd_of(session),
        reasons=reasons,
        is_call=True,
        purpose=call.purpose,
        is_native=call.native_nusd is not None,
    )


def without_call(
    session: AssembledSession,
    cost: SessionCost | None,
    *,
    tags: tuple[str, ...],
    created: datetime,
    tokens: Tokens | None = None,
    nusd: int = 0,
) -> Entry:
    reasons = unknown(session) if cost is None else known(cost)
    is_free = tokens is None and nusd == 0 and primary_model(session) is None
    is_uncalled = not reasons and (cost is None or is_free)
    return Entry(
        agent=session.agent,
        session=f"{session.agent}:{session.session_id}",
        model=NO_CALLS if is_uncalled else primary_model(session) or NO_MODEL,
        at=created,
        tokens=tokens or Tokens(),
        nusd=nusd,
        tags=tags,
        cwd=cwd_of(session),
        reasons=reasons,
        is_call=False,
        is_uncalled=is_uncalled,
    )


def loose_entries(
    assembly: Assembly, coster: CostCalculator, options: CostAggregationOptions
) -> Iterator[Entry]:
    for loose in assembly.unattributed:
        gaps = [*(part.facts.gaps for part in loose.sources), *(call.gaps for call in loose.calls)]
        reasons = tuple(reason for several in gaps for reason in several)
        for call in loose.calls:
            entry = of_call(
                loose,
                call,
                coster.price(loose, call),
                tags=(),
                created=time_span(loose)[0],
                reasons=reasons,
            )
            if in_span(entry.at, options) and options.model in (None, entry.model):
                yield entry


def in_span(moment: datetime, options: CostAggregationOptions) -> bool:
    early = options.since is not None and moment < options.since
    late = options.until is not None and moment > options.until
    return not early and not late


def groups(
    entries: Sequence[Entry], names: Sequence[GroupBy], zone: tzinfo
) -> dict[str, CostBreakdown]:
    members: dict[tuple[str, ...], list[Entry]] = {}
    for entry in entries:
        found: list[tuple[str, ...]] = [()]
        for name in names:
            found = [(*before, key) for before in found for key in KEYS[name](entry, zone)]
        for keys in found:
            members.setdefault(keys, []).append(entry)
    found_groups = {keys: breakdown(keys, members[keys]) for keys in sorted(members)}
    return {" | ".join(keys): group for keys, group in found_groups.items()}


KEYS: dict[GroupBy, Callable[[Entry, tzinfo], Sequence[str]]] = {
    "agent": lambda entry, _: [entry.agent],
    "model": lambda entry, _: [entry.model],
    "day": lambda entry, zone: [entry.at.astimezone(zone).strftime("%Y-%m-%d")],
    "week": lambda entry, zone: [entry.at.astimezone(zone).strftime("%G-W%V")],
    "month": lambda entry, zone: [entry.at.astimezone(zone).strftime("%Y-%m")],
    "project": lambda entry, _: [entry.cwd or "unknown"],
    "session": lambda entry, _: [entry.session or "unattributed"],
    "tag": lambda entry, _: entry.tags or ["untagged"],
}


def breakdown(keys: tuple[str, ...], entries: Sequence[Entry]) -> CostBreakdown:
    tokens = sum((entry.tokens for entry in entries), Tokens())
    reasons = {reason for entry in entries for reason in entry.reasons}
    if any(entry.nusd is None for entry in entries):
        reasons.add("unpriced-model")
    return CostBreakdown(
        key=" | ".join(keys),
        total_usd=sum(entry.nusd or 0 for entry in entries) / NANO,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        thinking_tokens=tokens.thinking or 0,
        cached_tokens=tokens.cache_read,
        cache_write_tokens=tokens.cache_write,
        session_count=len({entry.session for entry in entries} - {None}),
        incomplete=tuple(sorted(reasons)),
        keys=keys,
        sessions_without_calls=len({entry.session for entry in entries if entry.is_uncalled}),
    )


def unpriced(entries: Sequence[Entry]) -> Iterator[UnpricedModel]:
    without_price = [entry for entry in entries if entry.nusd is None]
    for model in sorted({entry.model for entry in without_price}):
        found = [entry for entry in without_price if entry.model == model]
        yield UnpricedModel(
            model=model,
            input_tokens=sum(entry.tokens.input for entry in found),
            output_tokens=sum(entry.tokens.output for entry in found),
            calls=sum(entry.is_call for entry in found),
        )


def record(entries: Sequence[Entry]) -> CostRecord:
    whole = breakdown((), entries)
    tokens = sum((entry.tokens for entry in entries), Tokens())
    return CostRecord(
        total_usd=whole.total_usd,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        thinking_tokens=tokens.thinking,
        cached_tokens=tokens.cache_read,
        cache_write_tokens=tokens.cache_write,
        source="native" if all(entry.is_native for entry in entries) else "estimate",
        incomplete=whole.incomplete,
    )
