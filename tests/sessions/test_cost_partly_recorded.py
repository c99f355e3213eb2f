"""A recorded total that does not cover all calls of a session is completed by an estimate.

The prices are those of the builders: 1 USD per million tokens of input for the small model, 5 for
the large one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import LARGE, SMALL, UNKNOWN, ClaudeSession, open_client, uuid_of

from amux.model.cost import CostRecord
from amux.model.usage import NANO, Tokens

Json = dict[str, Any]


def state(usd: float, **models: Tokens) -> Json:
    """Return a cost state that covers these tokens; a model is named without its prefix."""
    usage = {
        f"m-{model}": {
            "inputTokens": tokens.input,
            "outputTokens": tokens.output,
            "cacheReadInputTokens": tokens.cache_read,
            "cacheCreationInputTokens": tokens.cache_write,
            "cacheCreationEphemeral1hInputTokens": tokens.cache_write_1h,
        }
        for model, tokens in models.items()
    }
    return {
        "type": "cost-state",
        "sessionId": uuid_of(1),
        "totalCostUSD": usd,
        "modelUsage": usage,
    }


def session_of(home: Path, *calls: tuple[str, int]) -> ClaudeSession:
    """Return a session with calls of a model and a number of input tokens."""
    session = ClaudeSession(home, uuid_of(1), version="2.1.326")
    for model, tokens in calls:
        session.prompt("go").reply(tokens=Tokens(input=tokens), model=model)
    return session


def cost_of(home: Path) -> CostRecord:
    client = open_client(home)
    cost = client.sessions.get("claude", uuid_of(1)).cost
    assert cost is not None
    (listed,) = client.sessions.list("claude", limit=None)
    assert listed.cost == cost
    total = client.sessions.total_cost()
    assert round(total.total_usd * NANO) == round(cost.total_usd * NANO)
    assert total.incomplete == cost.incomplete or "unpriced-model" in cost.incomplete
    explained = client.explain_cost("claude", uuid_of(1))
    shares = [call.usd for call in explained.calls if call.usd is not None]
    assert round(sum(shares) * NANO) == round(cost.total_usd * NANO)
    return cost


def test_the_calls_of_a_killed_process_are_estimated(home: Path) -> None:
    session = session_of(home, (SMALL, 1000), (SMALL, 2000))
    session.raw(state(0.5, small=Tokens(input=2000))).write()
    cost = cost_of(home)
    assert cost.total_usd == pytest.approx(0.501)
    assert (cost.source, cost.incomplete) == ("estimate", ("cost-partly-recorded",))
    assert cost.input_tokens == 3000


def test_a_total_that_covers_more_than_the_lines_is_the_whole_cost(home: Path) -> None:
    session = session_of(home, (SMALL, 1000), (SMALL, 2000))
    tokens = Tokens(input=3000, output=9, cache_read=5)
    session.raw(state(0.5, small=tokens, large=Tokens(input=77))).write()
    cost = cost_of(home)
    assert (cost.total_usd, cost.source, cost.incomplete) == (0.5, "native", ())


def test_a_total_without_its_tokens_is_believed(home: Path) -> None:
    session = session_of(home, (SMALL, 1000))
    session.raw({"type": "cost-state", "totalCostUSD": 0.5, "modelUsage": "?"}).write()
    cost = cost_of(home)
    assert (cost.total_usd, cost.source, cost.incomplete) == (0.5, "native", ())


def test_a_total_of_a_process_without_calls_covers_none(home: Path) -> None:
    session_of(home, (SMALL, 1000)).raw(state(0.0)).write()
    cost = cost_of(home)
    assert cost.total_usd == pytest.approx(0.001)
    assert (cost.source, cost.incomplete) == ("estimate", ("cost-partly-recorded",))


def test_a_model_that_the_total_does_not_name_is_estimated(home: Path) -> None:
    session = session_of(home, (LARGE, 1000), (SMALL, 2000))
    session.raw(state(0.5, small=Tokens(input=2000))).write()
    assert cost_of(home).total_usd == pytest.approx(0.5 + large_price(1000))


def test_models_that_the_total_spells_otherwise_are_covered(home: Path) -> None:
    session = session_of(home, (f"{SMALL}-20260101", 1000), (LARGE, 2000))
    tokens = {"small[1m]": Tokens(input=1000), "big": Tokens(input=2000)}
    session.raw(state(0.5, **tokens)).write()
    cost = cost_of(home)
    assert (cost.total_usd, cost.source, cost.incomplete) == (0.5, "native", ())


def test_a_rest_without_a_price_is_only_marked(home: Path) -> None:
    session = session_of(home, (UNKNOWN, 1000), (SMALL, 2000))
    session.raw(state(0.5, small=Tokens(input=2000))).write()
    cost = cost_of(home)
    assert (cost.total_usd, cost.source) == (0.5, "native")
    assert cost.incomplete == ("cost-partly-recorded", "unpriced-model")


def test_an_interrupted_call_is_in_no_total_and_marked_as_such(home: Path) -> None:
    session = session_of(home, (SMALL, 1000))
    session.prompt("go").reply(tokens=Tokens(input=300), isAbortedMidStream=True)
    session.raw(state(0.5, small=Tokens(input=1000))).write()
    cost = cost_of(home)
    assert (cost.total_usd, cost.source) == (0.5, "native")
    assert cost.incomplete == ("call-interrupted",)


def test_the_calls_of_sub_agents_are_covered_by_the_total_of_their_session(home: Path) -> None:
    session = session_of(home, (SMALL, 1000))
    session.raw(state(0.5, small=Tokens(input=1700))).write()
    agent = ClaudeSession(home, uuid_of(1), version="2.1.326")
    agent.prompt("dig", isSidechain=True, agentId="abc")
    agent.reply(tokens=Tokens(input=800), message_id="msg_of_agent", isSidechain=True)
    folder = session.path.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    agent.write(folder / "agent-abc.jsonl")
    cost = cost_of(home)
    assert cost.input_tokens == 1800
    assert cost.total_usd == pytest.approx(0.5001)
    assert cost.incomplete == ("cost-partly-recorded",)


def large_price(tokens: int) -> float:
    return tokens * 5 / 1_000_000
