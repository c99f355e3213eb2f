"""`amux agents`: the installed agents, and the details of one."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import msgspec
import pytest
from builders import capture_named
from cli_process import Cli

from amux.adapters import BUILTIN
from amux.model.reports import AgentStatus

COLOR = re.compile(r"\x1b\[[0-9;]*m")
HEADINGS = ("Agent", "Sessions", "Oldest", "Newest", "Size", "Version", "Where", "Offers")


@pytest.fixture
def several(tmp_path: Path) -> Cli:
    """Agents with the longest names, places and versions."""
    home = tmp_path / "home"
    for name in ("claude-2.1.50", "opencode-1.18.33", "openclaw-2026.9.6", "cursor-handmade"):
        shutil.copytree(capture_named(name).home, home, dirs_exist_ok=True)
    return Cli(home)


def drawn(cli: Cli, *words: str, columns: int = 100) -> list[str]:
    wide = Cli(cli.home, {"COLUMNS": str(columns)})
    return COLOR.sub("", wide("agents", *words, "--color", "always").out).splitlines()


def cells(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip())


def test_a_hundred_columns_show_what_each_agent_has_and_offers(several: Cli) -> None:
    heading, *rows, footer = drawn(several)
    assert tuple(cells(heading)) == HEADINGS
    assert [row.split()[0] for row in rows] == list(BUILTIN)
    assert {len(line) for line in (heading, *rows)} == {100}
    claude = cells(rows[0])
    assert (claude[0], claude[1], claude[5]) == ("claude", "11", "2.1.50")
    assert claude[6:] == ["~/.claude/projects", "resume fork usage"]
    assert footer.startswith("4 agents with sessions here")


def test_only_directories_are_shortened(several: Cli) -> None:
    _, *rows, _ = drawn(several)
    for row in rows:
        assert all("…" not in cell for cell in (*cells(row)[:-2], cells(row)[-1])), row


def test_a_narrow_terminal_still_shows_the_directories(several: Cli) -> None:
    heading, *rows, _ = drawn(several, columns=80)
    assert tuple(cells(heading)) == HEADINGS[:-1]
    assert {len(line) for line in (heading, *rows)} == {80}
    assert cells(rows[0])[-1] == "~/.claude/projects"


def test_an_agent_that_is_not_here_says_so_and_what_it_would_offer(several: Cli) -> None:
    (row,) = [line for line in drawn(several) if line.startswith("pi ")]
    assert cells(row) == ["pi", "-", "(not found)", "resume fork usage"]


@pytest.mark.parametrize("words", [("cursor",), ("-a", "cursor")])
def test_one_agent_is_shown_in_full_on_any_terminal(several: Cli, words: tuple[str, ...]) -> None:
    (status,) = several("agents", *words, "--json").json()
    heading, *lines = drawn(several, *words, columns=40)
    assert heading == "Cursor (cursor)"
    facts = [tuple(line.split(maxsplit=1)) for line in lines]
    assert [root for name, root in facts if name == "found"] == status["roots"]
    assert len(status["roots"]) == 2
    assert ("evidence", status["evidence"]) in facts
    assert {("resume", "yes"), ("fork", "no"), ("usage", "recorded")} <= set(facts)


def test_one_agent_without_sessions_is_shown_in_full_too(several: Cli) -> None:
    _, *lines = drawn(several, "gemini")
    names = [line.split()[0] for line in lines]
    assert names == ["found", "resume", "fork", "usage", "storage", "tier", "evidence"]
    assert "(not found)" in lines[0]


def test_json_has_every_field_of_every_agent(several: Cli) -> None:
    agents = several("agents", "--json").json()
    assert [agent["name"] for agent in agents] == list(BUILTIN)
    optional = {"oldest", "newest", "version"}  # left out when there is nothing to say
    every = {field.encode_name for field in msgspec.structs.fields(AgentStatus)}
    assert all(every - optional <= agent.keys() <= every for agent in agents)
    assert agents[0].keys() == every


def test_plain_output_has_exact_numbers(several: Cli) -> None:
    (status,) = several("agents", "claude", "--json").json()
    (row,) = several("agents", "claude").rows()
    assert row == [
        "claude", "Claude Code", "spec", "11", status["newest"], str(status["bytes"]),
        ", ".join(status["roots"]), status["oldest"], status["version"], "resume fork usage",
    ]  # fmt: skip


def test_contradicting_agent_arguments_are_refused(several: Cli) -> None:
    assert several("agents", "claude", "-a", "claude").code == 0
    refused = several("agents", "claude", "-a", "codex")
    assert (refused.code, refused.out) == (2, "")
    assert "two agents are given" in refused.err


def test_an_unknown_agent_is_a_warning_that_names_the_known_ones(several: Cli) -> None:
    found = several("agents", "nobody")
    assert (found.code, found.out) == (0, "")
    assert "no agent is called `nobody`" in found.err
