"""Builds the expected content of a live home from the log of the fake model.

It has the form of a capture's `expected.json`, so the same comparison checks both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from live_agent import Agent
from model_protocols import Served, Usage

from amux.client import create_client
from amux.model.cost import CostSummary
from amux.testing import fingerprint, session_mismatches

Truth = dict[str, Any]

UNFINISHED: Final[Truth] = {"incomplete": ["call-interrupted"], "incomplete_detectable": True}
"""Of a session whose last answer was cut short: its cost is a lower bound, or there is none."""

_BUCKETS: Final = tuple(Usage.__dataclass_fields__)


def tokens_of(calls: Iterable[Served], *, without: Sequence[str] = ()) -> dict[str, int]:
    """The sum of some calls, bucket by bucket; 0 for buckets that the agent does not record."""
    total = dict.fromkeys(_BUCKETS, 0)
    for call in calls:
        for bucket, count in asdict(call.usage).items():
            total[bucket] += 0 if bucket in without else count
    return total


def truth_of(
    agent: Agent, *prompts: str, tools: Sequence[bool] = (), inherited: Sequence[str] = ()
) -> Truth:
    """A session that asked these prompts, after those it took over from the one it was forked from.

    `tools` tells for each of its tool calls, in order, whether the tool succeeded.
    """
    model = agent.model
    unfinished = [call for call in model.served if not call.finished]
    shown, own = model.calls_for(*inherited, *prompts), model.calls_for(*prompts)
    answered = {call.prompt for call in shown}
    asked = [tool.recorded or tool.name for tool in (call.reply.tool for call in shown) if tool]
    models = {agent.recorded_model or call.model: None for call in shown}
    tokens = tokens_of(own, without=agent.unrecorded)
    return {
        "kind": "fork" if inherited else "session",
        "models": [*models] or None,
        "user_prompts": [*inherited, *prompts],
        "assistant_texts": [call.reply.text for call in shown],
        "thinking_texts": [call.thinking for call in shown],
        "optional_texts": [call.thinking for call in unfinished],
        "turns": len(answered),
        "accept": {"turns": [len(answered | {call.prompt for call in unfinished})]},
        "tool_calls": [{"name": name, "ok": ok} for name, ok in zip(asked, tools, strict=True)],
        "own_tokens_recoverable": tokens,
        "tokens_recoverable": tokens,
        "incomplete": [],
    }


def differences(agent: Agent, truths: Mapping[str, Truth]) -> list[str]:
    """Where amux, opening the agent's home for the first time, and the truth differ.

    The sessions listed must be these and no others, each as told; their sum must be what the model
    served; and reading leaves no trace.
    """
    before = fingerprint(agent.home)
    sessions = create_client(home=agent.home).sessions
    listed = [summary.session_id for summary in sessions.list(agent.name)]
    wrong = [] if sorted(listed) == sorted(truths) else [f"listed: {listed}"]
    for session_id, truth in truths.items():
        found = session_mismatches(sessions.get(agent.name, session_id), truth)
        wrong.extend(f"{session_id}: {mismatch}" for mismatch in found)
    total = _tokens_in(sessions.total_cost(agent=agent.name))
    finished = [call for call in agent.model.served if call.finished]
    if total != tokens_of(finished, without=agent.unrecorded):
        wrong.append(f"the whole home: {total}")
    after = fingerprint(agent.home)
    changed = sorted(name for name in before.keys() | after if before.get(name) != after.get(name))
    return wrong + [f"reading changed {name}" for name in changed]


def _tokens_in(total: CostSummary) -> dict[str, int]:
    return {
        "input": total.input_tokens,
        "cache_read": total.cached_tokens,
        "cache_write": total.cache_write_tokens,
        "output": total.output_tokens,
        "thinking": total.thinking_tokens,
    }
