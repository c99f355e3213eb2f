"""Converts assembled sessions to `SessionSummary` and `Session`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from amux.assembly.cost import SessionCost, why_unknown
from amux.assembly.session import AssembledSession, time_span
from amux.model.annotation import Note
from amux.model.directories import forward_slashes
from amux.model.ids import unified_id
from amux.model.message import SessionMessage
from amux.model.session import Session, SessionSummary
from amux.model.trace import count_messages, count_turns
from amux.model.usage import Call, named_model

_ASIDE: Final = frozenset({"auxiliary", "warm-up"})
_LISTED: Final = ("channel", "profile")
"""The raw fields shown in a list: they distinguish sessions with equal ids."""

_PASSED_OVER: Final = frozenset({"unknownTypes", "unknownRecords"})
"""The raw fields taken from any source if the shown one lacks them."""


def summarize(
    session: AssembledSession,
    cost: SessionCost | None,
    tags: tuple[str, ...],
    *,
    starred: bool = False,
) -> SessionSummary:
    """Return the summary of a session: counts and cost, no messages."""
    created, updated = time_span(session)
    return SessionSummary(
        agent=session.agent,
        session_id=session.session_id,
        unified_id=unified_id(session.agent, session.session_id),
        title=session.title,
        created_at=created,
        updated_at=updated,
        turn_count=count_turns(session.trace.kinds),
        message_count=count_messages(session.trace.kinds),
        tags=tags,
        model=primary_model(session),
        cost=None if cost is None else cost.record(),
        unrecorded=why_unknown(session) if cost is None else (),
        cwd=cwd_of(session),
        forked_from=session.parent if session.kind == "fork" else None,
        models=models_of(session),
        kind=session.kind,
        parent=session.parent,
        archived=session.archived,
        starred=starred,
        problems=session.all_problems(),
        raw={name: session.facts.raw[name] for name in _LISTED if name in session.facts.raw},
    )


def full_session(
    session: AssembledSession,
    messages: Iterable[SessionMessage],
    *,
    cost: SessionCost | None,
    tags: tuple[str, ...] = (),
    starred: bool = False,
    notes: tuple[Note, ...] = (),
    children: tuple[Session, ...] = (),
) -> Session:
    """Return the session with its messages."""
    created, updated = time_span(session)
    return Session(
        agent=session.agent,
        session_id=session.session_id,
        unified_id=unified_id(session.agent, session.session_id),
        title=session.title,
        created_at=created,
        updated_at=updated,
        turn_count=count_turns(session.trace.kinds),
        tags=tags,
        messages=tuple(messages),
        model=primary_model(session),
        cost=None if cost is None else cost.record(),
        unrecorded=why_unknown(session) if cost is None else (),
        cwd=cwd_of(session),
        forked_from=session.parent if session.kind == "fork" else None,
        models=models_of(session),
        kind=session.kind,
        parent=session.parent,
        archived=session.archived,
        starred=starred,
        notes=notes,
        calls=tuple(session.calls),
        children=children,
        problems=session.all_problems(),
        raw=_raw(session),
    )


def _raw(session: AssembledSession) -> dict[str, Any]:
    raw: dict[str, Any] = dict(session.facts.raw)
    for part in session.sources:
        for name in _PASSED_OVER & part.facts.raw.keys():
            raw.setdefault(name, part.facts.raw[name])
    raw["sources"] = sorted(
        part.source.path.as_posix() if part.source.has_path else part.source.location
        for part in session.sources
    )
    if session.facts.version:
        raw["agentVersion"] = session.facts.version
    compactions = _compactions(session)
    if compactions:
        raw["compactions"] = compactions
    warnings = [str(problem) for problem in session.all_problems()]
    if warnings:
        raw["warnings"] = warnings
    return raw


def _compactions(session: AssembledSession) -> int:
    """Return the number of compactions; copies of one log count once."""
    by_log: dict[str | None, int] = {}
    for part in session.sources:
        log = part.facts.rollout
        by_log[log] = max(by_log.get(log, 0), part.facts.compactions)
    return sum(by_log.values())


def cwd_of(session: AssembledSession) -> str | None:
    """Return its working directory, with forward slashes on every platform."""
    cwd = session.facts.cwd or session.inherited_cwd
    return None if cwd is None else forward_slashes(cwd)


def models_of(session: AssembledSession) -> tuple[str, ...]:
    """Return every model it used, in order of appearance."""
    called = (call.model for call in _model_calls(session))
    recorded = (model for part in session.sources for model in part.facts.models)
    found = dict.fromkeys((*called, *session.facts.models, *recorded))
    return tuple(filter(None, map(named_model, found)))


def primary_model(session: AssembledSession) -> str | None:
    """Return the model with the most calls, the first of several; None if no model is recorded."""
    counts = Counter([call.model for call in _model_calls(session)])
    called = filter(named_model, (model for model, _ in counts.most_common()))
    if (most := next(called, None)) is not None:
        return most
    return next(filter(None, map(named_model, session.facts.models)), None)


def _model_calls(session: AssembledSession) -> list[Call]:
    # A fork without a call of its own has the model of its copied history.
    calls = session.calls or [ignored.call for ignored in session.ignored]
    # A small model that wrote a title or set a budget took no part in the conversation.
    return [call for call in calls if call.purpose not in _ASIDE] or calls
