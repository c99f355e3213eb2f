"""What a session was billed for. Hermes keeps totals, no single calls.

One call per model: from `session_model_usage` where there is one, else the totals of the session
row under its model. Rows of a task (a generated title) come on top of the session's totals; the
others add up to them, and what the session has beyond them goes to its own model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from amux.adapters.hermes.rows import SessionRow, UsageRow
from amux.model.incomplete import REASONING_NOT_RECORDED
from amux.model.usage import Call, Purpose, Tokens


def calls_of(
    row: SessionRow,
    usage: Sequence[UsageRow],
    *,
    at: datetime | None,
    purpose: Purpose,
    reasoning_unknown: bool,
) -> tuple[Call, ...]:
    """The billed totals of a session, the most used model first."""
    main = sorted((one for one in usage if not one.task), key=lambda one: -one.calls)
    calls = _by_model(row.id, main, purpose)
    rest = _remainder(row.tokens, [call.tokens for call in calls])
    if rest.total or row.gaps:
        key = f"{row.id}:{row.model or ''}"
        more = Call(key=key, model=row.model, purpose=purpose, tokens=rest, gaps=row.gaps)
        calls = _add(calls, more)
    if row.native_nusd is not None and calls:
        calls = _share(calls, row.native_nusd)
    calls = [_finished(call, at, reasoning_unknown=reasoning_unknown) for call in calls]
    helpers: list[Call] = []
    for one in usage:
        if one.task:
            helpers = _add(helpers, _helper_call(one))
    return (*calls, *helpers)


def _by_model(session_id: str, usage: Iterable[UsageRow], purpose: Purpose) -> list[Call]:
    """One call per model; a model may have been reached in several ways."""
    calls: list[Call] = []
    for one in usage:
        calls = _add(
            calls,
            Call(
                key=f"{session_id}:{one.model}",
                model=one.model,
                at=one.last_seen or one.first_seen,
                tokens=one.tokens,
                native_nusd=one.native_nusd,
                purpose=purpose,
                gaps=one.gaps,
            ),
        )
    return [call for call in calls if call.tokens.total or call.native_nusd or call.gaps]


def _add(calls: list[Call], more: Call) -> list[Call]:
    """Add to the call of the same key, if there is one."""
    for index, call in enumerate(calls):
        if call.key == more.key:
            amounts = (call.native_nusd, more.native_nusd)
            known = [amount for amount in amounts if amount is not None]
            merged = msgspec.structs.replace(
                call,
                tokens=call.tokens + more.tokens,
                at=max((at for at in (call.at, more.at) if at), default=None),
                native_nusd=sum(known) if len(known) == len(amounts) else None,
                gaps=call.gaps or more.gaps,
            )
            return [*calls[:index], merged, *calls[index + 1 :]]
    return [*calls, more]


def _remainder(total: Tokens, parts: Iterable[Tokens]) -> Tokens:
    """What the session was billed beyond its parts."""
    spent = sum(parts, Tokens())
    return Tokens(
        input=max(0, total.input - spent.input),
        cache_read=max(0, total.cache_read - spent.cache_read),
        cache_write=max(0, total.cache_write - spent.cache_write),
        output=max(0, total.output - spent.output),
        thinking=None if total.thinking is None else max(0, total.thinking - (spent.thinking or 0)),
    )


def _share(calls: Sequence[Call], recorded: int) -> list[Call]:
    """Share the session's recorded cost among its models, so that it adds up to the last unit."""
    known = [call.native_nusd for call in calls if call.native_nusd is not None]
    weights = known if len(known) == len(calls) and any(known) else _token_weights(calls)
    whole = sum(weights) or 1
    shares: list[Call] = []
    passed = given = 0
    for call, weight in zip(calls, weights, strict=True):
        passed += weight
        share = recorded * passed // whole - given
        given += share
        shares.append(msgspec.structs.replace(call, native_nusd=share))
    return shares


def _token_weights(calls: Iterable[Call]) -> list[int]:
    return [call.tokens.total for call in calls]


def _finished(call: Call, at: datetime | None, *, reasoning_unknown: bool) -> Call:
    """With a time, and without a zero that only means that reasoning was not counted."""
    if reasoning_unknown and not call.tokens.thinking:
        call = msgspec.structs.replace(
            call,
            tokens=msgspec.structs.replace(call.tokens, thinking=None),
            gaps=(*call.gaps, REASONING_NOT_RECORDED),
        )
    return call if call.at else msgspec.structs.replace(call, at=at)


def _helper_call(one: UsageRow) -> Call:
    return Call(
        key=f"{one.session_id}:{one.model}:{one.task}",
        model=one.model,
        at=one.last_seen or one.first_seen,
        tokens=one.tokens,
        native_nusd=one.native_nusd,
        purpose="auxiliary",
        gaps=one.gaps,
    )
