"""Comparison of the sessions read from a capture with the expected ones, field by field.

A field is correct if it equals the expected value or one of its accepted alternatives; null means
that the expected value is unknown. Texts are concatenated before they are compared: an answer may
be split into messages in any way. Optional texts may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from amux.adapters._base import AgentInfo
from amux.adapters._kit.injected import InjectedTexts
from amux.client import Client
from amux.model.cost import CostRecord
from amux.model.incomplete import UNPRICED_MODEL
from amux.model.message import SessionMessage, SessionToolCall
from amux.model.session import Session, SessionSummary
from amux.model.titles import ELLIPSIS, TITLE_LENGTH

Expected = dict[str, Any]

_SPACE = re.compile(r"\s+")
_TOLERANCE_USD = 1e-6


def session_mismatches(session: Session, expected: Expected) -> list[str]:
    """Return the differences between a session and the expected one; empty if it is correct."""
    wrong: list[str] = []
    for field, value_of in _FIELDS.items():
        allowed = _allowed(expected, field)
        if allowed:
            actual = value_of(session)
            if not any(_equal(field, actual, value, expected) for value in allowed):
                wrong.append(f"{field}: found {actual!r}, expected {allowed[0]!r}")
    wrong.extend(_tool_mismatches(session, expected))
    wrong.extend(_created_mismatch(session, expected))
    wrong.extend(_cost_mismatches(session, expected))
    return wrong


def listing_mismatches(listed: Sequence[SessionSummary], sessions: Iterable[Expected]) -> list[str]:
    """Return the differences between the default list and the expected sessions."""
    shown = [summary.session_id for summary in listed]
    wrong = [f"{name} is listed twice" for name in set(shown) if shown.count(name) > 1]
    groups: dict[str, bool] = {}
    for expected in sessions:
        is_shown = expected["session_id"] in shown
        if expected.get("listed") is not None and expected["listed"] is not is_shown:
            wrong.append(f"{expected['session_id']} listed: {is_shown}")
        group = expected.get("list_group")
        if group:
            groups[group] = groups.get(group, False) or is_shown
    wrong.extend(f"nothing of group {group} is listed" for group in groups if not groups[group])
    return wrong


def injected_openings(client: Client, agent: str, info: AgentInfo) -> list[str]:
    """Return the titles and prompts of an agent that begin with one of its injected texts."""
    injected = InjectedTexts(info.injected_texts)
    wrong: dict[str, None] = {}
    for summary in client.sessions.list(
        agent, limit=None, include_children=True, include_archived=True
    ):
        for session in _with_children(client.sessions.get(agent, summary.session_id)):
            shown = [("title", session.title), *(("prompt", text) for text in _prompts(session))]
            for what, text in shown:
                if injected.begins(text):
                    wrong[f"{session.session_id} {what}: {text[:100]!r}"] = None
    return list(wrong)


def _with_children(session: Session) -> Iterator[Session]:
    """Yield a session and all sub-agents below it; a list does not show those without an id."""
    yield session
    for child in session.children:
        yield from _with_children(child)


def same_title(title: str | None, expected: str) -> bool:
    """Return whether a title is the expected one, or an ellipsis shows that the prompt goes on.

    The expected title is the first 100 code points of a prompt, or 99 and a space that was removed.
    """
    is_long = len(expected) >= TITLE_LENGTH - 1
    return title == expected or (is_long and title == expected[: TITLE_LENGTH - 1] + ELLIPSIS)


def token_counts(cost: CostRecord | None) -> dict[str, int]:
    """Return the token counts of a cost record under the names used in captures."""
    if cost is None:
        return dict.fromkeys(("input", "cache_read", "cache_write", "output", "thinking"), 0)
    return {
        "input": cost.input_tokens,
        "cache_read": cost.cached_tokens or 0,
        "cache_write": cost.cache_write_tokens or 0,
        "output": cost.output_tokens,
        "thinking": cost.thinking_tokens or 0,
    }


def _allowed(expected: Expected, field: str) -> list[Any]:
    value = expected.get(field)
    if value is None:
        return []
    accepted: dict[str, list[Any]] = expected.get("accept") or {}
    others = accepted.get(field, [])
    return [] if None in others else [value, *others]


def _equal(field: str, actual: Any, value: Any, expected: Expected) -> bool:
    if field == "title":
        return same_title(actual, value)
    if field == "user_prompts":
        optional: list[str] = expected.get("optional_prompts") or []
        return bool(actual == value or [p for p in actual if p not in optional] == value)
    if field in ("assistant_texts", "thinking_texts"):
        return _same_text(actual, value, expected.get("optional_texts") or [])
    if field == "models":
        return _same_models(actual, value, expected)
    return bool(actual == value)


def _same_models(actual: Sequence[str], value: Sequence[str], expected: Expected) -> bool:
    if set(actual) == set(value):
        return True
    # If the copied prefix used another model than the session itself, either may be named.
    inherited: dict[str, int] = expected.get("inherited") or {}
    return bool(inherited.get("user_prompts") and actual and set(actual) < set(value))


def _same_text(actual: Sequence[str], value: Sequence[str], optional: Sequence[str]) -> bool:
    found, wanted = _squeeze(actual), _squeeze(value)
    if found == wanted:
        return True
    for text in sorted(optional, key=len, reverse=True):
        found = found.replace(_squeeze([text]), "")
        wanted = wanted.replace(_squeeze([text]), "")
    return found == wanted


def _squeeze(texts: Iterable[str]) -> str:
    return _SPACE.sub("", "".join(texts))


def _tool_mismatches(session: Session, expected: Expected) -> Iterator[str]:
    allowed = _allowed(expected, "tool_calls")
    if not allowed:
        return
    calls = (call for message in session.messages for call in message.tool_calls)
    found = [(call.tool_name, _succeeded(call)) for call in calls]
    cut_off = len(_last_calls(session.messages))
    for wanted in allowed:
        if len(wanted) == len(found) and all(
            name == one["name"]
            and (_right_outcome(expected, succeeded=succeeded, ok=one.get("ok")) or index < cut_off)
            for index, (name, succeeded), one in zip(
                reversed(range(len(found))), found, wanted, strict=True
            )
        ):
            return
    yield f"tool_calls: found {found!r}, expected {allowed[0]!r}"


def _right_outcome(expected: Expected, *, succeeded: bool | None, ok: bool | None) -> bool:
    if ok is None or ok is succeeded:
        return True
    # The expected outcomes inside a sub-agent's file were planned, not observed: a call that the
    # agent itself recorded as failed did fail.
    return ok and succeeded is False and expected.get("addressable") is False


def _last_calls(messages: Sequence[SessionMessage]) -> tuple[SessionToolCall, ...]:
    """Return the calls of the last message if none has an output: the agent died during them."""
    calls = messages[-1].tool_calls if messages else ()
    return calls if all(call.output is None for call in calls) else ()


def _succeeded(call: SessionToolCall) -> bool | None:
    if call.is_error is not None:
        return not call.is_error
    return None if call.output is None else True


def _created_mismatch(session: Session, expected: Expected) -> Iterator[str]:
    span = expected.get("created_between")
    if span:
        created = session.created_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if not span[0] <= created <= span[1]:
            yield f"created_at: found {created}, expected between {span[0]} and {span[1]}"


def _cost_mismatches(session: Session, expected: Expected) -> Iterator[str]:
    allowed = _allowed(expected, "tokens_recoverable")
    found = token_counts(session.cost)
    if allowed and found not in allowed:
        yield f"tokens: found {found}, expected {allowed[0]}"
    marked = session.cost is None or bool(session.cost.incomplete)
    if expected.get("incomplete_detectable") and not marked:
        yield f"the cost must be marked as incomplete: {expected['incomplete']}"
    if expected.get("incomplete") == [] and session.cost is not None:
        reasons = [one for one in session.cost.incomplete if one != UNPRICED_MODEL]
        if reasons:
            yield f"the cost is exact but marked as incomplete: {reasons}"
    native = expected.get("native_cost_usd")
    if native is not None:
        cost = session.cost
        right = (
            cost is not None
            and cost.source == "native"
            and abs(cost.total_usd - native) <= _TOLERANCE_USD
        )
        if not right:
            yield f"native cost: found {cost}, expected {native}"


def own_tokens(session: Session) -> dict[str, int]:
    """Return the tokens of the session's own calls, without those of sub-agents."""
    tokens = [call.tokens for call in session.calls]
    return {
        "input": sum(each.input for each in tokens),
        "cache_read": sum(each.cache_read for each in tokens),
        "cache_write": sum(each.cache_write for each in tokens),
        "output": sum(each.output for each in tokens),
        "thinking": sum(each.thinking or 0 for each in tokens),
    }


def _prompts(session: Session) -> list[str]:
    return [m.content for m in session.messages if m.role == "user" and not m.synthetic]


def _answers(session: Session) -> list[str]:
    return [m.content for m in session.messages if m.role == "assistant" and not m.synthetic]


def _thinking(session: Session) -> list[str]:
    return [m.thinking for m in session.messages if m.thinking and not m.synthetic]


_FIELDS: dict[str, Callable[[Session], Any]] = {
    "kind": lambda session: session.kind,
    "parent": lambda session: session.parent,
    "forked_from": lambda session: session.forked_from,
    "title": lambda session: session.title,
    "cwd": lambda session: session.cwd,
    "models": lambda session: session.models,
    "primary_model": lambda session: session.model,
    "user_prompts": _prompts,
    "assistant_texts": _answers,
    "thinking_texts": _thinking,
    "turns": lambda session: session.turn_count,
    "own_tokens_recoverable": own_tokens,
    "compactions": lambda session: session.raw.get("compactions", 0),
    "archived": lambda session: session.archived,
}
