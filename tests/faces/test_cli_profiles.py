"""A profile is selected for one command or one client and affects no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import write_claude
from cli_process import Cli

from amux import AmuxError, ValidationError, create_client
from amux.config import Config
from amux.model.usage import Tokens

SETTINGS = """\
prices:
  claude-x: {input: 1, output: 1}
profiles:
  work:
    timezone: America/New_York
    default_agent: codex
    prices:
      claude-x: {input: 5, output: 5}
"""


@pytest.fixture
def spent(empty: Cli) -> Cli:
    write_claude(empty.home, 1, model="claude-x", tokens=Tokens(input=1_000_000))
    (empty.home / ".agent-mux").mkdir()
    (empty.home / ".agent-mux" / "config.yaml").write_text(SETTINGS, encoding="utf-8")
    return empty


def total(cli: Cli, *words: str) -> float:
    return float(cli("cost", "--json", *words).json()["totalUsd"])


def test_a_profile_applies_to_the_command_that_selected_it(spent: Cli) -> None:
    for _ in range(2):  # the second time from the index
        assert total(spent) == 1
        assert total(spent, "--profile", "work") == 5
    shown = {row[0]: row[1] for row in spent("config", "show", "--profile", "work").rows()}
    assert (shown["timezone"], shown["default_agent"]) == ("America/New_York", "codex")
    assert spent("--profile=work", "list", "--json").json()[0]["cost"]["totalUsd"] == 5


def test_a_profile_applies_to_the_client_that_selected_it(spent: Cli) -> None:
    chosen = create_client(home=spent.home, profile="work")
    assert chosen.config.timezone == "America/New_York"
    assert chosen.default_agent == "codex"
    assert chosen.sessions.total_cost().total_usd == 5
    assert create_client(home=spent.home).sessions.total_cost().total_usd == 1
    client_wins = create_client(home=spent.home, profile="work", default_agent="claude")
    assert client_wins.default_agent == "claude"


@pytest.mark.parametrize("words", ["list", "cost", "list --json", "config show"])
def test_an_unknown_profile_is_an_error_even_without_settings(empty: Cli, words: str) -> None:
    write_claude(empty.home, 1)
    assert empty("list").code == 0  # what is quick from now on
    result = empty(*words.split(), "--profile", "play")
    assert result.code == 9
    assert "error: profile `play` is not defined" in result.err
    assert "hint: defined profiles: none" in result.err


def test_settings_and_a_profile_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(ValidationError) as both:
        create_client(home=tmp_path, config=Config(), profile="work")
    assert both.value.fields == ("profile",)
    with pytest.raises(AmuxError, match="profile `work` is not defined"):
        _ = create_client(home=tmp_path, profile="work").config
