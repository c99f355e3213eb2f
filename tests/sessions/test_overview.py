"""The overview: the agents, their last sessions, and the cost of the week."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from builders import (
    NOW,
    START,
    ClaudeSession,
    open_client,
    run_cost,
    uuid_of,
    write_claude,
    write_codex,
    write_interrupted,
    write_runs,
)

from amux.model.usage import Tokens


def test_an_empty_home_has_agents_without_sessions(home: Path) -> None:
    overview = open_client(home).overview()
    assert {"claude", "codex"} <= {status.name for status in overview.agents}
    for status in overview.agents:
        assert (status.session_count, status.bytes, status.roots) == (0, 0, ())
        assert (status.oldest, status.newest, status.version) == (None, None, None)
    assert overview.recent == ()
    assert (overview.week.total_usd, overview.week.session_count) == (0, 0)


def test_an_agent_is_shown_with_its_places_span_size_and_version(home: Path) -> None:
    paths = [
        write_claude(home, number, at=START + timedelta(days=number)).path for number in range(3)
    ]
    (claude,) = [status for status in open_client(home).agents() if status.name == "claude"]
    assert (claude.label, claude.session_count) == ("Claude Code", 3)
    assert claude.roots == ((home / ".claude" / "projects").as_posix(),)
    assert claude.bytes == sum(path.stat().st_size for path in paths)
    assert claude.oldest == START
    assert claude.newest == START + timedelta(days=2, seconds=1)
    assert claude.version == "2.1.100"
    assert (claude.can_resume, claude.can_fork, claude.records_usage) == (True, True, True)


def test_the_last_five_sessions_of_all_agents_are_shown_last_changed_first(home: Path) -> None:
    for number in range(8):
        write = write_claude if number % 2 else write_codex
        write(home, number, at=START + timedelta(days=number))
    recent = open_client(home).overview().recent
    assert [int(s.session_id[:8], 16) for s in recent] == [7, 6, 5, 4, 3]


def test_the_week_is_made_of_the_calls_in_it_not_of_the_sessions_begun_in_it(home: Path) -> None:
    session = ClaudeSession(home, uuid_of(1), at=NOW - timedelta(days=20))
    session.prompt("long ago").reply(tokens=Tokens(input=1000))
    session.at = NOW - timedelta(days=2)
    session.prompt("this week").reply(tokens=Tokens(input=10)).write()
    write_claude(home, 2, at=NOW - timedelta(days=9), tokens=Tokens(input=5))
    write_runs(home, {"cost": run_cost(1.0), "timestamp": (NOW - timedelta(days=1)).isoformat()})
    week = open_client(home).overview().week
    assert (week.input_tokens, week.session_count) == (10, 1)
    assert round(week.total_usd, 9) == 1.00001


def test_archived_sessions_and_sub_agents_are_not_among_the_last(
    copy_capture: Callable[[str], Path],
) -> None:
    client = open_client(copy_capture("codex-0.166.0"))
    usual = {s.session_id for s in client.sessions.list("codex")}
    assert {s.session_id for s in client.overview().recent} <= usual


def test_the_week_counts_a_session_of_which_no_spending_is_known(home: Path) -> None:
    """It began in the week, so it is a session of the week, and its cost is missing in the sum."""
    yesterday = NOW - timedelta(days=1)
    write_claude(home, 1, at=yesterday, tokens=Tokens(input=10))
    write_interrupted(home, 2, at=yesterday)
    write_interrupted(home, 3, at=NOW - timedelta(days=9))
    for env in (None, {"AMUX_CACHE_DIR": str(home.parent / "cache")}):
        client = open_client(home, env=env)
        week = client.overview().week
        assert (week.session_count, week.incomplete) == (2, ("call-interrupted",))
        assert week == client.sessions.total_cost(since=NOW - timedelta(days=6))
