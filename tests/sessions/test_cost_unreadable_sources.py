"""A cost with unreadable sources is a lower bound and says so."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from builders import NOW, SharedHome, capture_named, open_client, write_claude, write_codex

from amux import create_client
from amux.client import Client
from amux.model.cost import CostSummary
from amux.model.options import GroupBy
from amux.model.usage import Tokens

REASON = "unreadable-source"
NOISE = random.Random(7).randbytes(5_000)

LOGS = [
    ("claude-2.1.50", ".claude/projects/*/*.jsonl"),
    ("codex-0.42.0", ".codex/sessions/*/*/*/*.jsonl"),
    ("codex-0.166.0-zst", ".codex/sessions/*/*/*/*.zst"),
    ("copilot-1.0.102", ".copilot/session-state/*/events.jsonl"),
    ("droid-0.225.2", ".factory/sessions/*/*.jsonl"),
    ("gemini-0.61.0", ".gemini/tmp/*/chats/*.jsonl"),
    ("hermes-0.19.0", ".hermes/state.db"),
    ("openclaw-2026.6.11", ".openclaw/agents/*/sessions/*.jsonl"),
    ("opencode-0.5.29", ".local/share/opencode/project/*/storage/session/info/*.json"),
    ("opencode-1.18.33", ".local/share/opencode/opencode.db"),
    ("pi-1.5.0", ".pi/agent/sessions/*/*.jsonl"),
    ("qwen-0.24.4", ".qwen/projects/*/chats/*.jsonl"),
]


def damage(home: Path, pattern: str) -> Path:
    victim = min(home.glob(pattern))
    victim.write_bytes(NOISE)
    return victim


def with_and_without_index(home: Path, cache: Path) -> list[CostSummary]:
    """Direct, while the index is filled, from the index."""
    found = [create_client(home=home).sessions.total_cost(group_by="agent")]
    for _ in range(2):
        with create_client(home=home, env={"AMUX_CACHE_DIR": str(cache)}) as client:
            found.append(client.sessions.total_cost(group_by="agent"))
    return found


@pytest.mark.parametrize(("capture", "pattern"), LOGS)
def test_a_damaged_source_makes_the_sum_a_lower_bound_and_is_named(
    capture: str, pattern: str, tmp_path: Path, shared_home: SharedHome
) -> None:
    home = tmp_path / "home"
    shutil.copytree(shared_home(capture_named(capture)), home)
    whole = create_client(home=home).sessions.total_cost()
    assert REASON not in whole.incomplete
    assert whole.problems == ()
    victim = damage(home, pattern)
    direct, *kept = with_and_without_index(home, tmp_path / "cache")
    assert kept == [direct, direct]
    assert (direct.session_count, direct.input_tokens) < (whole.session_count, whole.input_tokens)
    assert REASON in direct.incomplete
    assert {problem.path for problem in direct.problems} == {str(victim)}
    for group in (direct.breakdowns or {}).values():
        assert REASON in group.incomplete


@pytest.fixture
def half_read(home: Path) -> Client:
    """Two agents; a log of one of them is damaged."""
    write_claude(home, 1, tokens=Tokens(input=100))
    write_codex(home, 2, tokens=Tokens(input=10))
    write_codex(home, 3, tokens=Tokens(input=10)).path.write_bytes(NOISE)
    return open_client(home)


@pytest.mark.parametrize(
    ("group_by", "marked"),
    [
        ("agent", {"codex"}),
        ("day", {"2026-03-01"}),
        ("model", {"m-small"}),
        ("session", set[str]()),
        (("day", "agent"), {"2026-03-01 | codex"}),
    ],
)
def test_a_group_that_may_lack_something_is_marked(
    group_by: GroupBy | Sequence[GroupBy], marked: set[str], half_read: Client
) -> None:
    summary = half_read.sessions.total_cost(group_by=group_by)
    groups = (summary.breakdowns or {}).values()
    assert {group.key for group in groups if REASON in group.incomplete} == marked
    assert REASON in summary.incomplete


def test_an_unreadable_source_does_not_mark_other_agents_as_incomplete(half_read: Client) -> None:
    claude = half_read.sessions.total_cost(agent="claude")
    assert (claude.incomplete, claude.problems, claude.session_count) == ((), (), 1)


def test_a_filtered_total_is_a_lower_bound_if_a_source_is_unreadable(half_read: Client) -> None:
    nothing = half_read.sessions.total_cost(agent="codex", since=NOW, model="m-large")
    assert (nothing.session_count, nothing.incomplete) == (0, (REASON,))


def test_the_overview_reports_unreadable_sources(half_read: Client, home: Path) -> None:
    overview = half_read.overview()
    assert REASON in overview.week.incomplete
    assert {Path(problem.path or "").parent.parent.name for problem in overview.problems} == {"03"}
    assert overview.week.problems
    assert set(overview.week.problems) <= set(overview.problems)
    with open_client(home, env={"AMUX_CACHE_DIR": str(home.parent / "cache")}) as client:
        assert client.overview() == overview
        assert client.overview() == overview


def test_a_bad_line_does_not_mark_the_total_as_incomplete(home: Path) -> None:
    write_claude(home, 1, tokens=Tokens(input=100)).raw(b"{torn").write()
    summary = open_client(home).sessions.total_cost()
    assert (summary.incomplete, summary.problems) == ((), ())
