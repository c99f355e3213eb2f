"""Cost blocks, compared with a second, naive implementation over the calls of whole sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from builders import (
    CAPTURES,
    LARGE,
    NOW,
    SMALL,
    START,
    UNKNOWN,
    ClaudeSession,
    SharedHome,
    open_client,
    uuid_of,
    write_claude,
    write_codex,
    write_interrupted,
    write_runs,
)
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st
from memory_adapter import MemoryAdapter, call

from amux import aio
from amux.client import Client, create_client
from amux.errors import ValidationError
from amux.model.cost import CostBlock
from amux.model.options import BlockOptions, SessionListOptions
from amux.model.session import Session
from amux.model.usage import NO_MODEL, Call, Tokens
from amux.testing import Capture

HOUR = timedelta(hours=1)


# The slow way


def calls_of(session: Session) -> Iterator[tuple[datetime, Call]]:
    """Every call with its time; one without counts when the whole session began."""
    waiting = [session]
    while waiting:
        member = waiting.pop()
        for one in member.calls:
            yield one.at or session.created_at, one
        waiting.extend(member.children)


def all_sessions(client: Client, agent: str) -> list[Session]:
    options = SessionListOptions(limit=None, include_archived=True)
    listed = client.list_report((agent,), options).sessions
    return [client.sessions.get(agent, one.session_id) for one in listed]


def slow_blocks(sessions: list[Session], hours: int) -> list[list[tuple[datetime, Call]]]:
    """Sort all calls by time; a call at or after the end of the block begins another one."""
    calls = sorted((timed for one in sessions for timed in calls_of(one)), key=lambda one: one[0])
    blocks: list[list[tuple[datetime, Call]]] = []
    for at, one in calls:
        if not blocks or at >= begin(blocks[-1]) + hours * HOUR:
            blocks.append([])
        blocks[-1].append((at, one))
    return blocks


def begin(block: list[tuple[datetime, Call]]) -> datetime:
    first = block[0][0].astimezone(UTC)
    return first - timedelta(
        minutes=first.minute, seconds=first.second, microseconds=first.microsecond
    )


def assert_equal(found: list[CostBlock], expected: list[list[tuple[datetime, Call]]]) -> None:
    assert [block.start for block in found] == [begin(block) for block in expected]
    for block, calls in zip(found, expected, strict=True):
        tokens = sum((one.tokens for _, one in calls), Tokens())
        assert (block.first_at, block.last_at) == (calls[0][0], calls[-1][0])
        assert block.call_count == len(calls)
        assert block.total_tokens == tokens.total
        assert (block.input_tokens, block.output_tokens) == (tokens.input, tokens.output)
        assert (block.cached_tokens, block.cache_write_tokens) == (
            tokens.cache_read,
            tokens.cache_write,
        )
        assert block.thinking_tokens == (tokens.thinking or 0)
        assert set(block.models) == {one.model or NO_MODEL for _, one in calls}


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: capture.name)
def test_the_blocks_of_a_capture_equal_a_naive_computation(
    capture: Capture, shared_home: SharedHome
) -> None:
    client = open_client(shared_home(capture))
    total = client.sessions.total_cost(agent=capture.agent)
    sessions = all_sessions(client, capture.agent)
    for hours in (1, 5):
        blocks = list(client.cost_blocks(agent=capture.agent, hours=hours))
        if total.unattributed is None:
            assert_equal(blocks, slow_blocks(sessions, hours))
        assert sum(block.total_usd for block in blocks) == pytest.approx(total.total_usd)
        assert sum(block.input_tokens for block in blocks) == total.input_tokens
        assert sum(block.output_tokens for block in blocks) == total.output_tokens


MINUTES = st.lists(st.integers(0, 60 * 48), max_size=12)


@drawn(60)
@given(st.lists(MINUTES, max_size=4), st.integers(1, 8))
def test_blocks_equal_a_naive_computation(times: list[list[int]], hours: int) -> None:
    memory = MemoryAdapter(Path(__file__).parent)
    for number, minutes in enumerate(times):
        calls = [
            call(f"{number}-{n}", at=START + timedelta(minutes=minute), input=minute)
            for n, minute in enumerate(minutes)
        ]
        memory.put(f"s{number}", *calls)
    client = open_client(Path("/src/home"))
    client.adapters.register(memory)
    found = client.cost_blocks(agent="memory", hours=hours)
    assert_equal(list(found), slow_blocks(all_sessions(client, "memory"), hours))


# By example


def at_minutes(home: Path, *minutes: int, **more: Any) -> ClaudeSession:
    session = ClaudeSession(home, uuid_of(1))
    for minute in minutes:
        session.at = START + timedelta(minutes=minute)
        session.reply(tokens=Tokens(input=1000), **more)
    session.write()
    return session


def test_a_block_begins_at_the_full_hour_and_lasts_five(home: Path) -> None:
    at_minutes(home, 20, 299)
    (block,) = open_client(home).cost_blocks()
    assert (block.agent, block.start, block.end) == ("claude", START, START + 5 * HOUR)
    assert (block.call_count, block.session_count, block.active) == (2, 1, False)
    assert block.total_usd == 0.002
    assert block.projection is None


def test_the_first_call_after_its_end_begins_the_next_block(home: Path) -> None:
    at_minutes(home, 20, 300, 320, 1000)
    starts = [block.start for block in open_client(home).cost_blocks()]
    assert starts == [START, START + 5 * HOUR, START + 16 * HOUR]


def test_the_length_may_be_chosen(home: Path) -> None:
    at_minutes(home, 20, 70, 130)
    client = open_client(home)
    assert [block.call_count for block in client.cost_blocks(hours=1)] == [1, 1, 1]
    assert [block.call_count for block in client.cost_blocks(hours=2)] == [2, 1]
    for wrong in (0, 169, -1, True, 2.5, "5"):
        given: Any = wrong
        with pytest.raises(ValidationError, match="length of a block"):
            client.cost_blocks(hours=given)


def test_the_burn_rate_is_the_average_between_first_and_last_call(home: Path) -> None:
    at_minutes(home, 0, 60, 120)
    (block,) = open_client(home).cost_blocks()
    assert block.burn_rate is not None
    assert block.burn_rate.tokens_per_minute == 25.0
    assert block.burn_rate.usd_per_hour == pytest.approx(0.0015)


def test_calls_within_one_minute_have_no_burn_rate(home: Path) -> None:
    at_minutes(home, 7)
    (block,) = open_client(home).cost_blocks()
    assert (block.burn_rate, block.projection) == (None, None)


def test_the_active_block_is_projected_to_its_end(home: Path) -> None:
    at_minutes(home, 0, 60, 120)
    now = START + 3 * HOUR
    (block,) = create_client(home=home, now=now, config=open_client(home).config).cost_blocks()
    assert block.active
    assert block.projection is not None
    assert block.projection.remaining_minutes == 120
    assert block.projection.total_tokens == 6000
    assert block.projection.total_usd == pytest.approx(0.003 + 2 * 0.0015)
    over = create_client(home=home, now=START + 5 * HOUR).cost_blocks()
    assert [block.active for block in over] == [False]


def test_every_agent_has_blocks_of_its_own(home: Path) -> None:
    write_claude(home, 1, tokens=Tokens(input=1))
    write_codex(home, 2, tokens=Tokens(input=2))
    client = open_client(home)
    assert [(block.agent, block.input_tokens) for block in client.cost_blocks()] == [
        ("claude", 1),
        ("codex", 2),
    ]
    assert [block.agent for block in client.cost_blocks(agent="codex")] == ["codex"]
    assert client.cost_blocks(agent="nobody") == ()


def test_a_model_chooses_calls_but_does_not_move_the_windows(home: Path) -> None:
    session = ClaudeSession(home, uuid_of(1))
    session.reply(tokens=Tokens(input=1), model=SMALL)
    session.at = START + 4 * HOUR
    session.reply(tokens=Tokens(input=2), model=LARGE).write()
    (block,) = open_client(home).cost_blocks(model=LARGE)
    assert (block.start, block.input_tokens, block.models) == (START, 2, (LARGE,))
    assert open_client(home).cost_blocks(model=UNKNOWN) == ()


def test_blocks_that_reach_into_a_span_are_kept(home: Path) -> None:
    at_minutes(home, 0, 600, 1200)
    client = open_client(home)

    def starts(**span: Any) -> list[int]:
        return [(block.start - START) // HOUR for block in client.cost_blocks(**span)]

    assert starts() == [0, 10, 20]
    assert starts(since=START + 5 * HOUR) == [10, 20]
    assert starts(since=START + 4 * HOUR, until=START + 10 * HOUR) == [0, 10]
    assert starts(until=START) == [0]


def test_a_copied_call_is_in_one_block_once(home: Path) -> None:
    origin = ClaudeSession(home, uuid_of(1)).prompt("go")
    origin.reply(tokens=Tokens(input=10), message_id="msg-1").write()
    fork = ClaudeSession(home, uuid_of(2), at=START + 20 * HOUR).prompt("go")
    fork.reply(tokens=Tokens(input=10), message_id="msg-1").write()
    blocks = open_client(home).cost_blocks()
    assert [(block.call_count, block.input_tokens) for block in blocks] == [(1, 10)]


def test_calls_of_no_session_and_unknown_prices_are_in_blocks_too(tmp_path: Path) -> None:
    memory = MemoryAdapter(tmp_path)
    memory.put("warm-up", call("a", model=None, gaps=("call-interrupted",)), attributed=False)
    memory.put("s", call("b", at=None, model=UNKNOWN), at=START + HOUR)
    client = open_client(tmp_path / "home")
    client.adapters.register(memory)
    (block,) = client.cost_blocks(agent="memory")
    assert (block.call_count, block.session_count, block.input_tokens) == (2, 1, 2000)
    assert block.incomplete == ("call-interrupted", "unpriced-model")
    assert block.models == (NO_MODEL, UNKNOWN)


def test_a_recorded_amount_without_calls_counts_at_the_start_of_its_session(home: Path) -> None:
    session = ClaudeSession(home, uuid_of(1)).prompt("go")
    session.raw({"type": "cost-state", "sessionId": uuid_of(1), "totalCostUSD": 0.25}).write()
    write_runs(home, {"cost": {"totalUsd": 9, "inputTokens": 1, "outputTokens": 1}})
    (block,) = open_client(home).cost_blocks()
    assert (block.start, block.call_count, block.total_usd) == (START, 0, 0.25)


@pytest.mark.parametrize(
    "at", [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)]
)
def test_a_call_at_the_latest_possible_time_is_in_a_block(tmp_path: Path, at: datetime) -> None:
    memory = MemoryAdapter(tmp_path)
    memory.put("s", call("a", at=at), at=at)
    client = open_client(tmp_path / "home")
    client.adapters.register(memory)
    (block,) = client.cost_blocks(agent="memory")
    assert block.start <= at <= block.end


def test_a_home_without_calls_has_no_blocks(home: Path) -> None:
    ClaudeSession(home, uuid_of(1)).prompt("only asked").write()
    assert open_client(home).cost_blocks() == ()


def test_the_asynchronous_twin_gives_the_same(home: Path) -> None:
    write_claude(home, 1, model="claude-sonnet-4-5", tokens=Tokens(input=1))
    twin = aio.create_client(home=home, now=NOW)
    expected = create_client(home=home, now=NOW).cost_blocks(hours=2)
    assert asyncio.run(twin.cost_blocks(hours=2)) == expected


def test_a_session_of_which_no_spending_is_known_makes_its_block_a_lower_bound(home: Path) -> None:
    write_codex(home, 1, at=START, tokens=Tokens(input=10))
    write_codex(home, 2, at=START + 20 * HOUR, tokens=Tokens(input=10))
    write_claude(home, 3, at=START, tokens=Tokens(input=10))
    write_interrupted(home, 4, at=START + 4 * HOUR)
    write_interrupted(home, 5, at=START + 10 * HOUR)  # where no block is
    for env in (None, {"AMUX_CACHE_DIR": str(home.parent / "cache")}):
        blocks = open_client(home, env=env).cost_blocks()
        assert [(each.agent, each.session_count, each.incomplete) for each in blocks] == [
            ("claude", 1, ()),
            ("codex", 1, ("call-interrupted",)),
            ("codex", 1, ()),
        ]


def test_a_source_that_cannot_be_read_makes_all_blocks_of_its_agent_lower_bounds(
    home: Path,
) -> None:
    for number in (1, 2):
        write_codex(home, number, at=START + number * 20 * HOUR, tokens=Tokens(input=10))
    write_claude(home, 3, tokens=Tokens(input=10))
    victim = write_codex(home, 4, at=START).path
    victim.write_bytes(b"noise\n")
    for env in (None, {"AMUX_CACHE_DIR": str(home.parent / "cache")}):
        report = open_client(home, env=env).block_report(BlockOptions())
        assert {(each.agent, each.incomplete) for each in report.blocks} == {
            ("claude", ()),
            ("codex", ("unreadable-source",)),
        }
        assert {problem.path for problem in report.problems} == {str(victim)}
