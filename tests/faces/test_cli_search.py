"""`amux search`: the table for people, and the output for programs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from builders import ClaudeSession, uuid_of, write_claude
from cli_process import Cli

from amux.sessions.search.query.filters import KEYS

BOLD = re.compile(r"\x1b\[1;33m(.*?)\x1b\[0m")
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def talk(tmp_path: Path) -> Cli:
    home = tmp_path / "home"
    session = ClaudeSession(home, uuid_of(1)).prompt("where is the needle?")
    session.tool_call("t1", {"command": "grep -r Needle src"}).tool_result("t1", "no needle")
    session.reply("a needle").reply("the needle again").write()
    write_claude(home, 2, prompt="hay", answer="nothing \x1b[31mneedle\x1b[0m red")
    return Cli(home)


def test_a_terminal_shows_the_best_messages_with_highlighted_words(talk: Cli) -> None:
    result = talk("search", "needle", "--color", "always", "--hits", "2")
    first = result.out.split("claude:")[1]
    lines = [ESCAPES.sub("", line) for line in first.splitlines()]
    assert (
        lines[1:]
        == [
            "  where is the needle?",
            "  #1 user  where is the needle?",
            "  #4 assistant  a needle",
            "  and 3 more messages",
            "",
        ][: len(lines) - 1]
    )
    assert BOLD.findall(first) == ["needle", "needle"]


def test_a_hit_prints_no_control_characters(talk: Cli) -> None:
    result = talk("search", "needle role:assistant nothing", "--color", "always")
    assert "\x1b[31m" not in result.out
    assert "nothing \u241b[31m" in ESCAPES.sub("", result.out)
    assert BOLD.findall(result.out) == ["nothing", "needle"]


def test_plain_output_has_one_row_per_session_with_the_numbers_last(talk: Cli) -> None:
    rows = talk("search", "needle").rows()
    assert sorted((row[0][-1], row[-2], row[-1]) for row in rows) == [
        ("1", "where is the needle?", "#1,#4,#5"),
        ("2", "nothing \u241b[31mneedle\u241b[0m red", "#2"),
    ]


def test_json_has_the_hits_and_their_ranges(talk: Cli) -> None:
    (found,) = talk("search", "grep", "--json").json()
    assert found["hitCount"] == 1
    (hit,) = found["hits"]
    assert (hit["messageNumber"], hit["role"]) == (2, "assistant")
    (start, end) = hit["ranges"][0]
    assert hit["snippet"][start:end] == "grep"
    (none,) = talk("search", "grep", "--json", "--hits", "0").json()
    assert (none["hitCount"], "hits" in none) == (1, False)


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ("needle --role user", "#1"),
        ("needle --role tool", "#3"),
        ("--tool bash", "#2,#3"),
        ("tool:bash role:tool", "#3"),
        ("needle --tool Bash --role assistant", "#2"),
        ("where --project app", "#1"),
        ("-- where -project:nope", "#1"),
        ("-agent:codex where", "#1"),
        ("where -model:nope --role user -tool:Bash", "#1"),
    ],
)
def test_filters_are_flags_and_words_of_the_query(talk: Cli, words: str, numbers: str) -> None:
    (row,) = talk("search", *words.split()).rows()
    assert row[-1] == numbers


def test_a_search_by_options_without_a_hit_is_noted(talk: Cli) -> None:
    for words in (["--errors"], ["--file", "x.py"], ["needle", "--project", "nope"]):
        result = talk("search", *words)
        assert (result.code, result.out, result.err) == (0, "", "note: nothing found\n")


def test_a_correction_is_searched_for_and_reported(talk: Cli) -> None:
    result = talk("search", "neddle", "again")
    assert len(result.rows()) == 1
    assert (
        result.err == 'note: nothing found for "neddle again"; showing results for "needle again"\n'
    )
    exact = talk("search", "neddle", "--exact")
    assert (exact.out, exact.err) == ("", "note: nothing found\n")
    named = talk("search", "neddle hay")
    assert (named.out, named.err) == ("", "note: nothing found\n"), "nor is there one for the guess"


def test_an_invalid_filter_and_a_limit_are_noted(talk: Cli) -> None:
    result = talk("search", "needle", "OR", "since:whenever", "--limit", "1")
    assert len(result.rows()) == 1
    assert "note: `since:whenever` has no time" in result.err
    assert "1 session beyond the limit" in result.err


def test_a_search_for_nothing_is_wrong_usage(talk: Cli) -> None:
    result = talk("search")
    assert (result.code, result.out) == (2, "")
    assert "no words to search for" in result.err
    empty = talk("search", "")
    assert (empty.code, empty.out, empty.err) == (0, "", "note: nothing found\n")
    assert talk("search", "x", "--role", "boss").code == 2


def test_the_help_on_queries_names_every_filter(empty: Cli) -> None:
    text = empty("help", "queries").out
    assert [key for key in KEYS if f" {key}:" not in text] == []
