from __future__ import annotations

import pytest
from builders import age, run_cost, write_runs
from cli_process import Cli

PROBE = """
import sys
from amux.__main__ import main
main({words!r})
print(*sorted(sys.modules), sep="\\n", file=sys.stderr)
"""
HEAVY = ("msgspec", "sqlite3", "rich", "asyncio", "shutil", "genai_prices", "yaml", "subprocess")


def modules_after(cli: Cli, *words: str) -> set[str]:
    result = cli.python("-c", PROBE.format(words=list(words)))
    assert result.code == 0, result.err
    return set(result.err.splitlines())


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_needs_no_parser(empty: Cli, option: str) -> None:
    modules = modules_after(empty, option)
    assert not modules & {"argparse", "amux.faces", "amux.errors", *HEAVY}


@pytest.mark.parametrize(
    "words", ["--help", "-h", "list --help", "cost report -h", "help", "help exit-codes"]
)
def test_help_needs_nothing_but_the_parser(empty: Cli, words: str) -> None:
    modules = modules_after(empty, *words.split())
    assert not modules & {"amux.client", "amux.adapters", "amux.model", *HEAVY}


def test_only_the_module_of_the_typed_command_is_imported(empty: Cli) -> None:
    modules = modules_after(empty, "list", "--help")
    commands = {name for name in modules if name.startswith("amux.faces.cli.commands.")}
    assert commands == {"amux.faces.cli.commands.list"}


@pytest.mark.parametrize("words", ["list", "sessions list --json"])
def test_a_repeated_list_needs_no_parser(claude: Cli, words: str) -> None:
    modules_after(claude, *words.split())
    modules = modules_after(claude, *words.split())
    assert not modules & {"argparse", "typing", "amux.adapters", *HEAVY} - {"sqlite3"}


@pytest.mark.parametrize("words", ["list", "list --json"])
def test_a_list_loads_little_with_runs_stars_and_settings(claude: Cli, words: str) -> None:
    session_id = claude("list", "--json").json()[0]["sessionId"]
    run = {"sessionId": session_id, "cost": run_cost(1.0), "tags": ["x"]}
    settings = write_runs(claude.home, run).with_name("config.yaml")
    settings.write_text("timezone: Asia/Tokyo\n", encoding="utf-8")
    age(*settings.parent.iterdir())
    assert claude("star", session_id).code == 0
    claude("list")
    modules = modules_after(claude, *words.split())
    assert not modules & {"argparse", "typing", "amux.adapters", *HEAVY} - {"sqlite3"}
    assert sum(name.partition(".")[0] == "amux" for name in modules) <= 30


@pytest.mark.parametrize("words", ["list claude", "list claude --json", "cost -a claude"])
def test_rich_is_imported_for_terminals_only(claude: Cli, words: str) -> None:
    assert "rich" not in modules_after(claude, *words.split())


def test_the_version_is_the_same_wherever_it_is_asked(empty: Cli) -> None:
    answers = {empty(*words).out for words in (["--version"], ["-V"], ["list", "-V"])}
    assert len(answers) == 1
    assert answers.pop().startswith("amux ")
