"""Where a cost comes from: the agent itself, the run index, or a price; against sums by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from builders import (
    LARGE,
    SMALL,
    START,
    UNKNOWN,
    ClaudeSession,
    CodexSession,
    open_client,
    run_cost,
    uuid_of,
    write_claude,
    write_codex,
    write_runs,
)
from memory_adapter import MemoryAdapter, call

from amux.client import create_client
from amux.model.cost import CostSummary
from amux.model.usage import NANO, Tokens

ZERO = CostSummary(
    total_usd=0,
    input_tokens=0,
    output_tokens=0,
    thinking_tokens=0,
    cached_tokens=0,
    session_count=0,
    run_count=0,
)


def nano(usd: float) -> int:
    return round(usd * NANO)


# Where a figure comes from


def test_the_agents_own_figure_goes_before_the_run_index_and_that_before_an_estimate(
    home: Path,
) -> None:
    session = write_claude(home, 1, tokens=Tokens(input=1000))
    client = open_client(home)
    estimated = client.sessions.get("claude", uuid_of(1)).cost
    assert estimated is not None
    assert (estimated.source, nano(estimated.total_usd)) == ("estimate", 1_000_000)

    write_runs(home, {"sessionId": uuid_of(1), "cost": run_cost(0.5)})
    recorded = open_client(home).sessions.get("claude", uuid_of(1)).cost
    assert recorded is not None
    assert (recorded.source, recorded.total_usd) == ("run-index", 0.5)

    session.raw({"type": "cost-state", "sessionId": uuid_of(1), "totalCostUSD": 0.25}).write()
    client = open_client(home)
    native = client.sessions.get("claude", uuid_of(1)).cost
    assert native is not None
    assert (native.source, native.total_usd) == ("native", 0.25)
    assert native.input_tokens == recorded.input_tokens == estimated.input_tokens == 1000

    total = client.sessions.total_cost()
    assert (total.total_usd, total.run_count, total.session_count) == (0.25, 1, 1)


def test_a_run_without_a_session_is_added(home: Path) -> None:
    write_claude(home, 1, tokens=Tokens(input=1000))
    tokens = Tokens(input=7, output=3)
    write_runs(
        home,
        {"cost": run_cost(0.5, tokens), "model": LARGE, "tags": ["t"]},
        {"sessionId": "gone-from-disk", "cost": run_cost(0.25)},
        {"agent": "gemini", "cost": run_cost(0.125)},
        {"agent": "codex"},
    )
    sessions = open_client(home).sessions
    total = sessions.total_cost()
    assert nano(total.total_usd) == 876_000_000
    assert (total.input_tokens, total.output_tokens) == (1007, 3)
    assert (total.run_count, total.session_count) == (4, 2)
    assert sessions.total_cost(agent="gemini").total_usd == 0.125
    assert sessions.total_cost(model=LARGE).total_usd == 0.5
    assert sessions.total_cost(tags=["t"]).total_usd == 0.5
    assert sessions.total_cost(since=START + timedelta(days=1)) == ZERO
    by_tag = sessions.total_cost(group_by="tag").breakdowns or {}
    assert {key: nano(one.total_usd) for key, one in by_tag.items()} == {
        "t": 500_000_000,
        "untagged": 376_000_000,
    }


def test_three_runs_of_one_session_are_three_runs_and_one_session(home: Path) -> None:
    write_claude(home, 1, tokens=Tokens(input=1000))
    write_runs(home, *({"sessionId": uuid_of(1), "cost": run_cost(0.5)} for _ in range(3)))
    total = open_client(home).sessions.total_cost()
    assert (total.run_count, total.session_count, total.total_usd) == (3, 1, 1.5)


def test_a_session_without_recorded_usage_has_that_of_its_runs(home: Path) -> None:
    CodexSession(home, uuid_of(1)).prompt("hi").write()
    cost = run_cost(0.5, Tokens(input=30, output=20))
    write_runs(home, {"agent": "codex", "sessionId": uuid_of(1), "cost": cost})
    sessions = open_client(home).sessions
    record = sessions.get("codex", uuid_of(1)).cost
    assert record is not None
    assert (record.source, record.total_usd) == ("run-index", 0.5)
    assert (record.input_tokens, record.output_tokens) == (30, 20)
    total = sessions.total_cost(group_by="agent")
    assert (total.input_tokens, total.output_tokens, total.total_usd) == (30, 20, 0.5)
    assert (total.session_count, total.run_count) == (1, 1)


def test_a_recorded_total_is_shared_among_the_calls_without_losing_a_nano(home: Path) -> None:
    session = ClaudeSession(home, uuid_of(1))
    for weight in (1, 1, 1):
        session.prompt("go").reply(tokens=Tokens(input=weight))
    for model in (SMALL, LARGE, UNKNOWN):
        session.prompt("go").reply(tokens=Tokens(input=7), model=model)
    session.raw({"type": "cost-state", "totalCostUSD": 0.000000100}).write()
    client = open_client(home)
    total = client.sessions.total_cost(group_by="model")
    assert nano(total.total_usd) == 100
    assert sum(nano(one.total_usd) for one in (total.breakdowns or {}).values()) == 100
    assert total.incomplete == (), "the agent knows what it paid for the unknown model"


# Prices


def test_a_price_of_ones_own_changes_the_estimate(home: Path) -> None:
    write_claude(home, 1, model="claude-sonnet-4-5", tokens=Tokens(input=1_000_000))
    before = create_client(home=home).sessions.get("claude", uuid_of(1)).cost
    assert before is not None
    (home / ".agent-mux").mkdir()
    (home / ".agent-mux" / "config.json").write_text(
        '{"prices": {"claude-sonnet-4-5": {"input": 42, "output": 1}}}'
    )
    after = create_client(home=home).sessions.get("claude", uuid_of(1)).cost
    assert after is not None
    assert after.total_usd == 42.0 != before.total_usd
    assert (before.source, after.source) == ("estimate", "estimate")


def test_a_call_is_priced_as_on_its_day(home: Path) -> None:
    """o3 was 10 and 40 USD per million until 10 June 2025, then 2 and 8."""
    million = Tokens(input=1_000_000, output=1_000_000)
    for number, month in ((1, 5), (2, 7)):
        at = datetime(2025, month, 1, tzinfo=UTC)
        CodexSession(home, uuid_of(number), at=at, model="o3").prompt("x").reply(
            tokens=million
        ).write()
    sessions = create_client(home=home).sessions
    costs = [sessions.get("codex", uuid_of(number)).cost for number in (1, 2)]
    assert [cost and cost.total_usd for cost in costs] == [50.0, 10.0]


def test_reasoning_is_part_of_the_output_and_not_charged_again(home: Path) -> None:
    write_codex(home, 1, tokens=Tokens(output=100, thinking=90))
    cost = open_client(home).sessions.get("codex", uuid_of(1)).cost
    assert cost is not None
    assert (cost.output_tokens, cost.thinking_tokens) == (100, 90)
    assert nano(cost.total_usd) == 1_000_000


def test_an_answer_streamed_over_several_lines_is_billed_once(home: Path) -> None:
    session = ClaudeSession(home, uuid_of(1)).prompt("go")
    for output in (1, 1, 40):
        session.reply("part", tokens=Tokens(input=10, output=output), message_id="msg-1")
    session.write()
    cost = open_client(home).sessions.get("claude", uuid_of(1)).cost
    assert cost is not None
    assert (cost.input_tokens, cost.output_tokens) == (10, 40)


def test_a_call_without_a_time_has_the_price_of_the_day_its_session_began(tmp_path: Path) -> None:
    memory = MemoryAdapter(tmp_path)
    for name, began in (("early", datetime(2025, 6, 1, tzinfo=UTC)), ("late", START)):
        memory.put(name, call(f"of {name}", model="o3", at=None, input=1_000_000), at=began)
    client = open_client(tmp_path / "home")
    client.adapters.register(memory)
    # What the maker charged for a million tokens before and after 10 June 2025.
    usd = {"early": 10.0, "late": 2.0}
    for name, amount in usd.items():
        cost = client.sessions.get("memory", name).cost
        assert cost is not None
        assert cost.total_usd == amount
        (explained,) = client.explain_cost("memory", name).calls
        assert explained.usd == amount
        assert explained.rates is not None
        assert explained.rates["input"] == amount
    assert client.sessions.total_cost(agent="memory").total_usd == sum(usd.values())
