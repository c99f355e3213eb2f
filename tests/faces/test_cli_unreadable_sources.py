"""The command reports when a sum misses sources that could not be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_process import Cli, copied_home

REASON = "unreadable-source"
ROLLOUTS = ".codex/sessions/*/*/*/*.jsonl"


@pytest.fixture
def codex(tmp_path: Path) -> Cli:
    return Cli(copied_home(tmp_path, "codex/0.42.0"))


def damage(home: Path, count: int) -> list[Path]:
    victims = sorted(home.glob(ROLLOUTS))[:count]
    for victim in victims:
        victim.write_bytes(b"noise\n")
    return victims


def test_cost_names_what_it_could_not_read_and_marks_the_sum(codex: Cli) -> None:
    whole = codex("cost", "--json").json()
    assert "problems" not in whole
    (victim,) = damage(codex.home, 1)
    for _ in ("read", "kept"):
        result = codex("cost")
        assert result.code == 0
        assert "1 problem while reading" in result.err
        assert str(victim) in result.err
        assert f"the sum is a lower bound: call-interrupted, {REASON}" in result.err
        summary = codex("cost", "--by", "agent", "--json").json()
        assert summary["sessionCount"] == whole["sessionCount"] - 1
        assert REASON in summary["incomplete"]
        assert REASON in summary["breakdowns"]["codex"]["incomplete"]
        assert {each["path"] for each in summary["problems"]} == {str(victim)}
    assert REASON in codex("cost", "--by", "day", "--csv").out


def test_cost_blocks_name_unreadable_sources(codex: Cli) -> None:
    (victim,) = damage(codex.home, 1)
    result = codex("cost", "blocks", "--json")
    assert result.code == 0
    assert all(REASON in block["incomplete"] for block in result.json())
    assert str(victim) in result.err


def test_the_cost_of_unreadable_sources_is_unknown_not_zero(codex: Cli) -> None:
    damage(codex.home, 100)
    assert codex("cost").rows()[-1][-1] == "?"
    looked = codex()
    assert looked.code == 0
    assert "no session could be read" in looked.err
    assert "while reading" in looked.err
    assert "no sessions of any known agent" not in looked.err


def test_the_overview_names_what_it_could_not_read(codex: Cli) -> None:
    (victim,) = damage(codex.home, 1)
    for _ in ("read", "kept"):
        looked = codex()
        assert looked.code == 0
        assert str(victim) in looked.err
        assert looked.rows()[-1][0] == "week"
        assert {each["path"] for each in codex("--json").json()["problems"]} == {str(victim)}
