"""`amux cost report` and `amux cost blocks`: tables, bars, JSON and CSV of the same figures."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest
from builders import (
    LARGE,
    PRICES,
    SMALL,
    START,
    UNKNOWN,
    ClaudeSession,
    capture_named,
    uuid_of,
    write_claude,
    write_codex,
    write_failed,
    write_runs,
)
from cli_process import Cli, copied_home
from hypothesis import given
from hypothesis import strategies as st
from pseudo_terminal import COLOR, on_terminal, width

from amux.faces.cli.commands.cost_report import GROUPINGS
from amux.faces.cli.tables import bar, shortened
from amux.model.options import GroupBy
from amux.model.usage import Tokens

BLOCKS = "▏▎▍▌▋▊▉█"
HOSTILE = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\uff1d1", 'a"b,c', "line\r\nbreak")


def write_prices(home: Path) -> None:
    prices = {
        model: {"input": price.input, "output": price.output, "cache_read": price.cache_read}
        for model, price in PRICES.items()
    }
    folder = home / ".agent-mux"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"prices": prices}))


@pytest.fixture
def spent(tmp_path: Path) -> Cli:
    """Three days, two models, two agents; the large model is the dearer one on each day."""
    home = tmp_path / "home"
    home.mkdir()
    write_prices(home)
    for day in range(3):
        at = START + timedelta(days=day)
        write_claude(home, 10 + day, at=at, model=LARGE, tokens=Tokens(input=1000 * (day + 1)))
        write_claude(home, 20 + day, at=at, model=SMALL, tokens=Tokens(input=7, output=3))
    write_codex(home, 30, at=START, model=SMALL, tokens=Tokens(input=10, cache_read=5))
    write_runs(home, {"sessionId": uuid_of(10), "tags": ["t"]})
    return Cli(home)


def table_of(text: str) -> list[dict[str, str]]:
    assert text.endswith("\r\n")
    assert text.count("\n") == text.count("\r\n")
    return list(csv.DictReader(io.StringIO(text, newline="")))


# Groups


def test_every_grouping_of_the_library_may_be_typed() -> None:
    assert get_args(GroupBy) == GROUPINGS


def test_rows_are_sorted_by_time_and_then_by_descending_cost(spent: Cli) -> None:
    rows = spent("cost", "--by", "day,model").rows()
    assert [row[:2] for row in rows] == [
        ["2026-03-01", LARGE],
        ["2026-03-01", SMALL],
        ["2026-03-02", LARGE],
        ["2026-03-02", SMALL],
        ["2026-03-03", LARGE],
        ["2026-03-03", SMALL],
        ["total", ""],
    ]
    by_model = spent("cost", "--by", "model,month").rows()
    assert [row[:2] for row in by_model[:-1]] == [[LARGE, "2026-03"], [SMALL, "2026-03"]]
    assert rows[-1][2:] == by_model[-1][2:] == spent("cost").rows()[-1][1:]


def test_by_and_group_by_mean_the_same(spent: Cli) -> None:
    assert spent("cost", "--by", "week").out == spent("cost", "--group-by", "week").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--by hour", "is not one of"),
        ("--by day,modle", "did you mean `model`?"),
        ("--by day,day", "twice"),
        ("--by day,", "is not one of"),
        ("--json --csv", "`--json` and `--csv` cannot be combined"),
    ],
)
def test_wrong_usage_is_explained(spent: Cli, words: str, said: str) -> None:
    result = spent("cost", *words.split())
    assert result.code == 2
    assert said in result.err


def test_json_has_the_parts_of_each_key(spent: Cli) -> None:
    groups = spent("cost", "--by", "agent,project", "--json").json()["breakdowns"]
    assert {key: group["keys"] for key, group in groups.items()} == {
        "claude | /src/app": ["claude", "/src/app"],
        "codex | /src/app": ["codex", "/src/app"],
    }


def test_calls_without_a_session_are_noted_and_not_counted_twice(tmp_path: Path) -> None:
    """This version starts warm-up agents that are billed."""
    result = Cli(capture_named("claude-2.0.77").copy_to(tmp_path))("cost")
    (agent, *figures), (total, *sums) = result.rows()
    assert (agent, total) == ("claude", "total")
    assert figures == sums
    assert "of the total belongs to no session: 57 warm-up calls of claude" in result.err


# CSV


def test_csv_has_a_header_and_the_exact_figures(spent: Cli) -> None:
    rows = table_of(spent("cost", "--by", "day,model", "--csv").out)
    groups = spent("cost", "--by", "day,model", "--json").json()["breakdowns"]
    assert len(rows) == len(groups)
    for row in rows:
        group = groups[f"{row['day']} | {row['model']}"]
        for name in ("sessionCount", "inputTokens", "cachedTokens", "outputTokens"):
            assert int(row[name]) == group[name]
        assert float(row["totalUsd"]) == group["totalUsd"]
    assert rows[0]["totalUsd"] == "0.005000000"


def test_csv_says_why_a_sum_is_a_lower_bound(empty: Cli) -> None:
    write_claude(empty.home, 1, model=UNKNOWN, tokens=Tokens(input=1))
    (row,) = table_of(empty("cost", "--csv").out)
    assert (row["agent"], row["incomplete"]) == ("claude", "unpriced-model")
    assert (row["totalUsd"], row["inputTokens"]) == ("0.000000000", "1")


def test_no_cell_is_a_formula(empty: Cli) -> None:
    for number, text in enumerate(HOSTILE):
        write_claude(empty.home, number, model=text, tokens=Tokens(input=1))
    out = empty("cost", "--by", "model,session", "--csv").out
    models = [row["model"] for row in table_of(out)]
    assert len(models) == len(HOSTILE)
    assert not [model for model in models if model.startswith(("=", "+", "-", "@", "\uff1d"))]
    assert {"'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\uff1d1", 'a"b,c'} <= set(models)
    assert "line  break" in models


# For people


@pytest.mark.parametrize("columns", [60, 80, 100, 140])
def test_rows_fit_the_terminal_and_no_figure_is_cut(spent: Cli, columns: int) -> None:
    screen = COLOR.sub("", on_terminal(spent, "cost", "--by", "day,project", columns=columns))
    lines = screen.splitlines()
    assert max(map(width, lines)) <= columns
    assert "…" not in screen
    assert lines[-1].startswith("total")
    assert "$0.0301" in lines[-1]


@pytest.mark.parametrize("columns", [9, 16, 20, 26, 34])
@pytest.mark.parametrize("words", ["cost --by month,model", "cost --by day,project", "cost blocks"])
def test_a_row_that_does_not_fit_becomes_a_block(spent: Cli, words: str, columns: int) -> None:
    narrow = Cli(spent.home, {"COLUMNS": str(columns)})
    shown = COLOR.sub("", narrow(*words.split(), "--color", "always").out).splitlines()
    assert max(map(width, shown)) <= columns
    costs = [cell for row in spent(*words.split()).rows() for cell in row if "$" in cell]
    assert [found for line in shown for found in re.findall(r"(?:>= |< )?\$\S+", line)] == costs


def test_a_block_has_the_keys_of_its_row_and_the_sum_comes_last(spent: Cli) -> None:
    narrow = Cli(spent.home, {"COLUMNS": "20"})
    screen = COLOR.sub("", narrow("cost", "--by", "month,model", "--color", "always").out)
    assert screen.splitlines() == [
        *("2026-03", LARGE, "  Cost $0.0300"),
        *("2026-03", SMALL, "  Cost $0.0001"),
        *("total", "  Cost $0.0301"),
    ]


def test_every_row_has_a_bar_in_proportion(spent: Cli) -> None:
    screen = COLOR.sub("", on_terminal(spent, "cost", "--by", "day", columns=140))
    heading, *rows, total = screen.splitlines()
    bars = ["".join(char for char in row if char in BLOCKS) for row in rows]
    assert [len(drawn) for drawn in bars] == [8, 16, 24]
    assert bars[-1] == "█" * 24
    assert not set(heading + total) & set(BLOCKS)


def test_bars_need_no_colour_and_no_unicode(spent: Cli) -> None:
    plain = Cli(spent.home, {"NO_COLOR": "1", "PYTHONIOENCODING": "ascii"})
    screen = on_terminal(plain, "cost", "--by", "day", columns=140)
    assert "\x1b[3" not in screen
    assert [line.count("#") for line in screen.splitlines()] == [0, 8, 16, 24, 0]
    coloured = on_terminal(Cli(spent.home, {"NO_COLOR": "1"}), "cost", columns=140)
    assert "█" in coloured
    assert "\x1b[3" not in coloured


def test_a_long_folder_keeps_its_end(empty: Cli) -> None:
    folder = "/nowhere/" + "long-folder/" * 8 + "app"
    write_claude(empty.home, 1, cwd=folder, tokens=Tokens(input=1))
    screen = COLOR.sub("", on_terminal(empty, "cost", "--by", "project", columns=80))
    assert "…" in screen
    assert "long-folder/app " in screen


def test_tables_print_no_control_characters(empty: Cli) -> None:
    write_claude(empty.home, 1, model="m\x1b[2J\u202e", cwd="/a\x07", tokens=Tokens(input=1))
    screen = COLOR.sub("", on_terminal(empty, "cost", "--by", "model,project", columns=140))
    assert not set(screen) & {"\x1b", "\x07", "\u202e"}


@given(st.floats(0, 1), st.integers(1, 40), st.booleans())
def test_a_bar_is_never_longer_than_its_room(share: float, room: int, is_plain: bool) -> None:
    drawn = bar(share, room, is_plain=is_plain)
    assert (len(drawn) == 0) == (share == 0)
    assert len(drawn) <= room
    assert bar(1, room, is_plain=is_plain) == ("#" if is_plain else "█") * room


@given(st.text(max_size=30), st.integers(2, 20))
def test_a_shortened_text_fits(text: str, room: int) -> None:
    from rich.cells import cell_len

    found = shortened(text, room)
    assert cell_len(found) <= room
    assert found == text or "…" in found


# Blocks


@pytest.fixture
def working(tmp_path: Path) -> Cli:
    """One block long ago, and one that is open: twenty minutes of work until just now."""
    home = tmp_path / "home"
    home.mkdir()
    write_prices(home)
    write_claude(home, 1, at=START, tokens=Tokens(input=1000))
    session = ClaudeSession(home, uuid_of(2), at=datetime.now(UTC) - timedelta(minutes=20))
    session.reply(tokens=Tokens(input=1000), model=LARGE)
    session.at = datetime.now(UTC)
    session.reply(tokens=Tokens(input=1000, output=100), model=SMALL).write()
    return Cli(home)


def test_blocks_are_rows_objects_and_csv(working: Cli) -> None:
    rows = working("cost", "blocks").rows()
    assert rows[0][:4] == [
        "claude",
        "2026-03-01T10:00:00Z",
        "2026-03-01T15:00:00Z",
        "over",
    ]
    blocks = working("cost", "blocks", "--json").json()
    assert [block["active"] for block in blocks] == [False, True]
    written = table_of(working("cost", "blocks", "--csv").out)
    for row, block, line in zip(rows, blocks, written, strict=True):
        assert row[4] == line["callCount"] == str(block["callCount"])
        assert float(line["totalUsd"]) == pytest.approx(block["totalUsd"])
        assert line["models"].split() == row[-1].split(",") == block["models"]
    assert (written[0]["tokensPerMinute"], written[0]["projectedUsd"]) == ("", "")
    assert int(written[1]["projectedTokens"]) > 2100


def test_the_open_and_the_recent_windows_may_be_asked_for(working: Cli) -> None:
    active = working("cost", "blocks", "--active", "--json").json()
    assert [block["callCount"] for block in active] == [2]
    assert active[0]["projection"]["totalUsd"] > active[0]["totalUsd"]
    assert [row[3] for row in working("cost", "blocks", "--recent").rows()] == ["open"]


def test_the_open_window_is_explained_to_people(working: Cli) -> None:
    screen = COLOR.sub("", on_terminal(working, "cost", "blocks", columns=90))
    lines = screen.splitlines()
    assert lines[0].split()[:3] == ["Agent", "Begin", "End"]
    assert max(map(width, lines[:3])) <= 90
    assert lines[3].startswith("claude: open until ")
    assert "tokens per minute" in screen


def test_a_length_must_be_a_whole_number_of_hours(working: Cli) -> None:
    assert len(working("cost", "blocks", "--session-length", "1", "--json").json()) >= 2
    for wrong in ("0", "1.5", "many", "169"):
        assert working("cost", "blocks", "--session-length", wrong).code == 2


def test_cost_blocks_without_calls_print_a_note(empty: Cli) -> None:
    result = empty("cost", "blocks", "-a", "nobody")
    assert (result.code, result.out) == (0, "")
    assert "note: no calls were found" in result.err
    assert "no agent is called `nobody`" in result.err
    assert empty("cost", "blocks", "--active").err == "note: no window is open now\n"


SAME_AS_LISTED = (
    *("claude/2.1.325", "codex/0.20.0", "codex/0.42.0", "gemini/0.61.0", "qwen/0.24.4"),
    *("openclaw/2026.9.6", "opencode/1.18.33", "pi/1.5.0"),
)


@pytest.mark.parametrize("capture", SAME_AS_LISTED)
def test_the_cost_of_a_session_is_shown_equally_in_lists_and_reports(
    capture: str, tmp_path: Path
) -> None:
    cli = Cli(copied_home(tmp_path, capture))
    listed = {row[0]: row[3] for row in cli("list", "--all", "--limit", "all").rows()}
    summed = {row[0]: row[-1] for row in cli("cost", "--by", "session").rows()}
    groups = cli("cost", "--by", "session", "--json").json()["breakdowns"]
    unknown = [session for session in groups if listed.get(session) == "?"]
    uncalled = [session for session in groups if listed.get(session) == "no calls"]
    assert unknown or uncalled
    for session in groups.keys() & listed.keys():
        assert summed[session] == listed[session]
    for session in uncalled:
        assert groups[session]["incomplete"] == []
        assert "incomplete" not in cli("cost", "explain", session, "--json").json()
        assert "**Cost:** no calls\n" in cli("show", session).out
    for session in unknown:
        reasons = groups[session]["incomplete"]
        explained = cli("cost", "explain", session, "--json").json()
        assert sorted(explained["incomplete"]) == reasons != []
        assert f": {', '.join(explained['incomplete'])}\n" in cli("cost", "explain", session).err


def test_a_session_without_calls_is_called_so_everywhere(empty: Cli) -> None:
    write_failed(empty.home, 1, at=START)
    name = f"codex:{uuid_of(1)}"
    for grouping, key in (("session", name), ("model", "(sessions without calls)")):
        row, total = empty("cost", "--by", grouping).rows()
        assert (row[0], row[-1], total[-1]) == (key, "no calls", "no calls")
    assert [row[3] for row in empty("list").rows()] == ["no calls"]
    assert [row[3] for row in empty("search", "broken").rows()] == ["no calls"]
    explained = empty("cost", "explain", name)
    assert (explained.out, explained.err) == ("", "")
    screen = on_terminal(empty, "cost", "explain", name, "--color", "never").splitlines()
    assert screen[-1] == "no calls"
    assert "**Total:** no calls\n" in empty("export", name, "--format", "markdown").out


@pytest.mark.parametrize("capture", ["openclaw/2026.9.6", "opencode/1.18.33"])
def test_a_recorded_cost_of_nothing_is_no_call_either(capture: str, tmp_path: Path) -> None:
    cli = Cli(copied_home(tmp_path, capture))
    listed = {row[0]: row[1:4] for row in cli("list", "--limit", "all").rows()}
    free = [name for name, (_, _, cost) in listed.items() if cost == "no calls"]
    assert [listed[name][:2] for name in free] == [["?", "0"]]
    by_model = {row[0]: row[-1] for row in cli("cost", "--by", "model").rows()}
    assert by_model["(sessions without calls)"] == "no calls"
    by_session = {row[0]: row[-1] for row in cli("cost", "--by", "session").rows()}
    assert by_session[free[0]] == "no calls"
    assert "**Cost:** no calls\n" in cli("show", free[0]).out
    screen = on_terminal(cli, "cost", "explain", free[0], "--color", "never").splitlines()
    assert screen[-1] == "no calls"


def test_a_price_under_another_name_is_explained(empty: Cli) -> None:
    write_claude(empty.home, 1, model="claude-4.5-sonnet", tokens=Tokens(input=100_000))
    why = "anthropic/claude-sonnet-4-5: another spelling of the name"
    explained = empty("cost", "explain", uuid_of(1))
    assert [row[-2] for row in explained.rows()] == ["$0.30"]
    assert explained.err == f"note: `claude-4.5-sonnet` has the price of {why}\n"
    assert f"per million tokens ({why})" in on_terminal(empty, "cost", "explain", uuid_of(1))
    (call,) = empty("cost", "explain", uuid_of(1), "--json").json()["calls"]
    assert f"{call['priceEntry']}: {call['priceNote']}" == why


def test_calls_that_name_no_model_are_not_a_model_called_unknown(empty: Cli) -> None:
    write_claude(empty.home, 1, model="unknown", tokens=Tokens(input=1000))
    report = empty("cost", "--by", "model")
    assert [row[0] for row in report.rows()] == ["(calls that name no model)", "total"]
    assert "note: 1 call names no model, so no price is known\n" in report.err
    assert [row[1] for row in empty("list").rows()] == ["?"]
    assert [row[1] for row in empty("cost", "explain", uuid_of(1)).rows()] == ["(none named)"]
