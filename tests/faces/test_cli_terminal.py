"""The output of the command on a pseudo-terminal."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

import pytest
from cli_process import Cli
from pseudo_terminal import COLOR, on_terminal, width


def test_a_list_is_a_table_with_headings(claude: Cli) -> None:
    screen = COLOR.sub("", on_terminal(claude, "list"))
    heading, *rows = screen.splitlines()
    assert re.split(r"\s{2,}", heading.strip()) == [
        "Session ID", "Model", "Turns", "Cost", "Date", "Summary",
    ]  # fmt: skip
    assert len(rows) == len(claude("list").rows())
    assert "29c5cee3" in screen
    assert "29c5cee3-3f53" not in screen


def test_several_agents_get_a_column(both: Cli) -> None:
    heading = COLOR.sub("", on_terminal(both, "list")).splitlines()[0]
    assert heading.startswith("Agent ")


@pytest.mark.parametrize("columns", [60, 80, 140])
def test_rows_fit_the_terminal_with_wide_characters_too(claude: Cli, columns: int) -> None:
    lines = COLOR.sub("", on_terminal(claude, "list", columns=columns)).splitlines()
    assert {width(line) for line in lines} == {columns}


def costs(rows: list[str]) -> list[tuple[str, str]]:
    return [(row.split()[0], found[0]) for row in rows if (found := re.search(r"\$\S+|—", row))]


def test_a_narrow_terminal_shows_fewer_columns_and_no_figure_is_cut(claude: Cli) -> None:
    narrow = COLOR.sub("", on_terminal(claude, "list", columns=40)).splitlines()
    assert re.split(r"\s{2,}", narrow[0].strip()) == ["Session ID", "Cost", "Summary"]
    wide = COLOR.sub("", on_terminal(claude, "list", columns=140)).splitlines()
    assert costs(narrow[1:]) == costs(wide[1:])
    assert len(costs(narrow[1:])) > 5
    assert width(narrow[1]) == 40
    index = COLOR.sub("", on_terminal(claude, "index", columns=40))
    assert "…" not in index


def test_the_index_says_what_it_holds_for_people_and_programs(claude: Cli) -> None:
    claude("index", "update")
    assert "text index: none yet" in on_terminal(claude, "index")
    assert claude("index").rows() == [["claude", "12", "12", "0", "0", "11", "1", "0"]]
    claude("search", "hello")
    screen = COLOR.sub("", on_terminal(claude, "index"))
    assert "12 of 12 sources, with tool input and output" in screen
    headings, figures = (re.split(r"\s{2,}", line.strip()) for line in screen.splitlines()[-2:])
    assert dict(zip(headings, figures, strict=True)) == {
        "Agent": "claude", "Sources": "12", "Kept": "12", "Stale": "0", "To read": "0 B",
        "Texts": "12", "Sessions": "11", "Sub-agents": "1",
    }  # fmt: skip
    assert claude("index").rows() == [["claude", "12", "12", "0", "0", "11", "1", "12"]]


def test_an_unusable_text_index_is_reported(claude: Cli) -> None:
    claude("search", "hello")
    for path in (claude.home.parent / "cache").glob("texts-*"):  # its write-ahead log, too
        path.write_bytes(b"no database" * 1000)
    result = claude("index")
    assert result.rows() == [["claude", "12", "12", "0", "0", "11", "1", ""]]
    assert "warning: the text index cannot be used: " in result.err
    assert "text index: ?" in on_terminal(claude, "index")


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 100])
@pytest.mark.parametrize("words", ["cost explain fe60fe62", "agents", "index", ""])
def test_no_figure_and_no_time_is_cut_on_any_terminal(
    claude: Cli, words: str, columns: int
) -> None:
    def shown(width: int) -> list[str]:
        cli = Cli(claude.home, {"COLUMNS": str(width)})
        return COLOR.sub("", cli(*words.split(), "--color", "always").out).splitlines()

    never_left_out = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\$[\d.]+")
    sizes = re.compile(r"\b\d[\d.]* [KM]?B\b")
    claude("index", "update")
    wide, narrow = "\n".join(shown(200)), "\n".join(shown(columns))
    assert Counter(never_left_out.findall(narrow)) == Counter(never_left_out.findall(wide))
    assert Counter(sizes.findall(narrow)) <= Counter(sizes.findall(wide))


def test_colour_can_be_switched_off_and_forced(claude: Cli) -> None:
    assert "\x1b[36m" in on_terminal(claude, "list")
    quiet = Cli(claude.home, {"NO_COLOR": "1"})
    for command in ("list", "cost", "agents", "search hello", ""):
        words = command.split()
        assert "\x1b" in on_terminal(claude, *words)
        assert "\x1b" not in on_terminal(claude, *words, "--no-color")
        assert "\x1b" not in on_terminal(claude, *words, "--color", "never")
        assert "\x1b" not in on_terminal(quiet, *words)
    assert "\x1b[36m" in on_terminal(quiet, "list", "--color", "always")
    forced = claude("list", "--color", "always").out
    assert "Session ID" in forced


def test_an_empty_no_color_variable_has_no_effect(claude: Cli) -> None:
    assert "\x1b[36m" in on_terminal(Cli(claude.home, {"NO_COLOR": ""}), "list")


def test_the_overview_ends_with_a_next_step(both: Cli) -> None:
    screen = COLOR.sub("", on_terminal(both))
    assert screen.startswith("18 sessions of 2 agents\n")
    assert "Last sessions" in screen
    assert screen.splitlines()[-1].startswith("Next: `amux show ")


@pytest.mark.parametrize(
    ("words", "word"),
    [
        ("cost", "total"),
        ("cost explain 29c5cee3", "per million tokens"),
        ("agents", "agents with sessions here"),
        ("config show", "timezone"),
        ("search hello", "claude:"),
        ("diff 29c5cee3 aa25bd55", "unchanged"),
    ],
)
def test_every_command_prints_tables_on_a_terminal(both: Cli, words: str, word: str) -> None:
    assert word in COLOR.sub("", on_terminal(both, *words.split()))


@pytest.mark.parametrize(
    "words",
    [
        "list claude",
        "list claude --json",
        "search pwned",
        "search pwned --json",
        "show 0c067a2d",
        "export 0c067a2d",
        "export 0c067a2d --format html",
        "diff 0c067a2d aa25bd55",
        "cost explain 0c067a2d",
    ],
)
def test_sessions_print_no_control_characters(claude: Cli, words: str) -> None:
    """A prompt that clears the screen, sets the title, reverses text and speaks C1."""
    victim = next((claude.home / ".claude" / "projects").rglob("0c067a2d*.jsonl"))
    attack = r"pwned \u001b[2J\u001b]0;title\u0007 \u009b31m \u202eesrever\u0007\r\n\tend"
    prompt = "Write a long poem about tests."
    text = victim.read_text(encoding="utf-8")
    assert prompt in text
    victim.write_text(text.replace(prompt, attack), encoding="utf-8")
    screen = COLOR.sub("", on_terminal(claude, *words.split(), columns=200))
    assert "pwned" in screen
    allowed = {"\n", "\t"}
    hostile = {
        char
        for char in screen
        if unicodedata.category(char) == "Cc" or unicodedata.bidirectional(char) == "RLO"
    }
    assert hostile <= allowed


def test_a_hostile_title_stays_in_its_row_in_plain_output(claude: Cli) -> None:
    victim = next((claude.home / ".claude" / "projects").rglob("0c067a2d*.jsonl"))
    text = victim.read_text(encoding="utf-8")
    text = text.replace("Write a long poem about tests.", r"a\tb\nc\u001b[31m")
    victim.write_text(text, encoding="utf-8")
    rows = claude("list").rows()
    assert {len(row) for row in rows} == {6}
    assert "\x1b" not in claude("list").out
