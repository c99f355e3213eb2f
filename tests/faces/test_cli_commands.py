"""The commands on copies of captured homes; expected.json states the expected results."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cli_process import CAPTURES, Cli

from amux import create_client

TOOL_SESSION = "aa25bd55-0374-401d-b6d1-ca1876f1f8e9"
FORK = "fe60fe62-13f2-4507-89a3-ea9569dc14c6"  # of the tool session
PARENT = "29c5cee3-3f53-4795-b157-dccd1a4ec3a1"


def expected(capture: str) -> dict[str, Any]:
    sessions: list[dict[str, Any]] = msgspec.json.decode(
        (CAPTURES / capture / "expected.json").read_bytes()
    )["sessions"]
    return {each["session_id"]: each for each in sessions}


CLAUDE = expected("claude/2.1.50")
CODEX = expected("codex/0.42.0")


def test_a_list_has_one_row_per_session_newest_first(claude: Cli) -> None:
    result = claude("sessions", "list", "claude")
    rows = result.rows()
    assert result.code == 0
    assert {row[0].removeprefix("claude:") for row in rows} == {
        name for name, each in CLAUDE.items() if each["listed"]
    }
    assert [row[4] for row in rows] == sorted((row[4] for row in rows), reverse=True)
    for unified, _model, turns, cost, created, summary in rows:
        truth = CLAUDE[unified.removeprefix("claude:")]
        assert int(turns) in (truth["turns"], *truth.get("accept", {}).get("turns", []))
        assert summary.removeprefix("[fork] ") == truth["title"]
        assert created.endswith("Z")
        assert cost.startswith(("$", ">= $", "?"))


def test_short_and_long_forms_of_commands_print_the_same(both: Cli) -> None:
    assert both("list").out == both("sessions", "list").out == both("sessions").out
    assert both("list", "claude").out == both("list", "--agent", "claude").out
    assert both("cost").out == both("cost", "report").out
    assert both("agents").out == both("adapters", "list").out


def test_hidden_sessions_are_counted_on_stderr_and_shown_when_asked(claude: Cli) -> None:
    short, everything = claude("list"), claude("list", "--all")
    assert short.err == "note: 1 sub-agent not shown (`--all` shows them)\n"
    assert len(everything.rows()) == len(short.rows()) + 1
    assert everything.err == ""
    assert claude("list", "--quiet").err == ""


def test_a_limit_reports_the_number_of_omitted_sessions(claude: Cli) -> None:
    result = claude("list", "--limit", "2", "--children")
    assert len(result.rows()) == 2
    assert "beyond the limit (`--limit all` shows them)" in result.err
    assert claude("list", "--limit", "0").out == ""
    assert claude("list", "--limit", "all").out == claude("list").out


def test_json_is_the_bare_array_of_the_specification(both: Cli) -> None:
    sessions = both("list", "--json").json()
    assert {each["agent"] for each in sessions} == {"claude", "codex"}
    needed = {"agent", "sessionId", "unifiedId", "title", "createdAt", "updatedAt", "tags"}
    for each in sessions:
        assert needed | {"turnCount", "messageCount"} <= each.keys()
        assert "messages" not in each
        assert each["unifiedId"] == f"{each['agent']}:{each['sessionId']}"


def test_filters_of_a_list_narrow_it(both: Cli) -> None:
    assert both("list", "--since", "2099-01-01").out == ""
    assert both("list", "--until", "2000-01-01").err.startswith("note: no session matches")
    assert {row[1] for row in both("list", "-m", "gpt-5-codex").rows()} == {"gpt-5-codex"}
    here = both("list", "--cwd", "/home/dev/src/webapp-claude/../webapp-claude", "--json").json()
    assert {each["cwd"] for each in here} == {"/home/dev/src/webapp-claude"}
    turns = [int(row[2]) for row in both("list", "--sort", "turns", "--direction", "asc").rows()]
    assert turns == sorted(turns)


def test_a_relative_cwd_is_resolved_against_the_working_directory(
    both: Cli, tmp_path: Path
) -> None:
    result = both("list", "--cwd", ".", cwd=tmp_path)
    assert (result.code, result.out) == (0, "")


@pytest.mark.parametrize(
    "address",
    [["claude", PARENT], [f"claude:{PARENT}"], [PARENT], ["29c5cee3"], ["claude", "29c5"]],
    ids=" ".join,
)
def test_a_session_has_several_addresses(both: Cli, address: list[str]) -> None:
    result = both("show", *address)
    assert result.code == 0
    assert result.out == both("sessions", "show", "claude", PARENT).out
    assert result.out.startswith("# Use a subagent to count the files.\n")


@pytest.mark.parametrize(
    ("format", "beginning"),
    [("json", "{\n  "), ("jsonl", '{"'), ("markdown", "# "), ("html", "<!doctype html>")],
)
def test_a_session_is_shown_in_each_format(claude: Cli, format: str, beginning: str) -> None:
    shown = claude("show", TOOL_SESSION, "--format", format)
    assert shown.code == 0
    assert shown.out.lower().startswith(beginning)
    assert claude("export", TOOL_SESSION, "--format", format).out == shown.out


def test_show_defaults_to_markdown_and_export_to_json(claude: Cli) -> None:
    assert (
        claude("show", TOOL_SESSION).out == claude("show", TOOL_SESSION, "--format", "markdown").out
    )
    exported = claude("export", TOOL_SESSION)
    assert exported.json()["sessionId"] == TOOL_SESSION
    assert claude("show", TOOL_SESSION, "--json").out == exported.out


def test_an_export_for_people_may_have_a_title_of_its_own(claude: Cli) -> None:
    titled = ("export", TOOL_SESSION, "--title", "Mine <3", "--format")
    page = claude(*titled, "html").out
    assert "<title>Mine &lt;3</title>" in page
    assert "<h1>Mine &lt;3</h1>" in page
    assert claude(*titled, "markdown").out.startswith("# Mine")
    for format in ("json", "jsonl"):
        refused = claude(*titled, format)
        assert (refused.code, refused.out) == (2, "")
        assert "hint: a title can be given for markdown and html" in refused.err
    client = create_client(home=claude.home)
    assert client.sessions.export("claude", TOOL_SESSION, "html", title="Mine <3") == page


def test_an_export_to_a_file_is_private_and_never_replaces_another(
    claude: Cli, tmp_path: Path
) -> None:
    target = tmp_path / "session.md"
    export = ("export", TOOL_SESSION, "--format", "markdown", "--output", str(target))
    assert claude(*export).out == ""
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert target.read_text(encoding="utf-8") == claude("show", TOOL_SESSION).out

    target.write_text("mine", encoding="utf-8")
    refused = claude(*export)
    assert (refused.code, target.read_text(encoding="utf-8")) == (2, "mine")
    assert "use `--force` to replace it" in refused.err

    assert claude(*export, "--force").code == 0
    assert target.read_text(encoding="utf-8") != "mine"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "session.md"]


def test_an_export_that_cannot_be_written_says_where(claude: Cli, tmp_path: Path) -> None:
    result = claude("export", TOOL_SESSION, "-o", str(tmp_path / "no" / "file"))
    assert (result.code, result.out) == (1, "")
    assert "cannot write" in result.err
    assert "No such file or directory" in result.err


def test_a_search_finds_words_of_any_agent(both: Cli) -> None:
    result = both("search", "hello.txt", "--json")
    hits = result.json()
    assert {each["agent"] for each in hits} == {"claude", "codex"}
    assert all(0 <= each["relevanceScore"] <= 1 for each in hits)
    assert len(both("search", "hello.txt", "--limit", "1").rows()) == 1
    assert {row[0][:5] for row in both("search", "hello.txt", "-a", "codex").rows()} == {"codex"}


def test_a_search_without_a_hit_says_so(both: Cli) -> None:
    result = both("search", "xyzzy plugh")
    assert (result.code, result.out, result.err) == (0, "", "note: nothing found\n")
    assert both("search", "xyzzy", "--json").json() == []
    unknown = both("search", "hello", "--agent", "nobody")
    assert (unknown.code, unknown.out) == (0, "")
    assert "no agent is called `nobody`" in unknown.err


def test_a_diff_of_a_session_with_itself_changes_nothing(claude: Cli) -> None:
    one = f"claude:{TOOL_SESSION}"
    stats = claude("sessions", "diff", one, one, "--json").json()["stats"]
    assert (stats["additions"], stats["removals"], stats["modifications"]) == (0, 0, 0)
    assert {row[0] for row in claude("diff", one, one).rows()} == {"="}


def test_a_diff_shows_what_a_fork_added(claude: Cli) -> None:
    fork = next(each for each in CLAUDE.values() if each["kind"] == "fork")
    result = claude("diff", f"claude:{fork['forked_from']}", f"claude:{fork['session_id']}")
    signs = [row[0] for row in result.rows()]
    assert "=" in signs
    assert "+" in signs
    assert result.err.startswith("note: ")


def test_costs_are_grouped_for_people_and_bare_for_programs(both: Cli) -> None:
    rows = both("cost").rows()
    assert [row[0] for row in rows] == ["claude", "codex", "total"]
    plain = both("cost", "report", "--json").json()
    assert "breakdowns" not in plain
    assert {"totalUsd", "inputTokens", "outputTokens", "sessionCount", "runCount"} <= plain.keys()
    by_day = both("cost", "report", "--group-by", "day", "--json").json()
    assert list(by_day["breakdowns"]) == ["2026-11-15"]


def test_cost_totals_equal_the_recoverable_tokens_of_the_capture(claude: Cli) -> None:
    totals = msgspec.json.decode((CAPTURES / "claude/2.1.50/expected.json").read_bytes())
    truth = totals["home_totals"]["tokens_recoverable"]
    plain = claude("cost", "--json").json()
    assert plain["inputTokens"] == truth["input"]
    assert plain["cachedTokens"] == truth["cache_read"]
    assert plain["outputTokens"] == truth["output"]


def test_a_cost_is_explained_call_by_call(claude: Cli) -> None:
    whole = claude("cost", "explain", PARENT, "--json").json()
    assert whole["unifiedId"] == f"claude:{PARENT}"
    rows = claude("cost", "explain", "claude", PARENT).rows()
    assert len(rows) == len(whole["calls"])
    counted = [each for each in whole["calls"] if each["counted"]]
    assert sum(each["usd"] for each in counted) == pytest.approx(whole["cost"]["totalUsd"])


def test_copies_are_explained_in_brackets_with_where_they_are_counted(claude: Cli) -> None:
    whole = claude("cost", "explain", FORK, "--json").json()
    copies = [each for each in whole["calls"] if not each["counted"]]
    assert {each["countedIn"] for each in copies} == {f"claude:{TOOL_SESSION}"}
    assert all(each["uncountedUsd"] > 0 and "usd" not in each for each in copies)
    rows = claude("cost", "explain", FORK).rows()
    prices = [row[-2] for row in rows if row[-1].endswith(TOOL_SESSION)]
    assert len(prices) == len(copies) > 0
    assert all(re.fullmatch(r"\((>= )?\$[\d.]+\)", price) for price in prices)
    wide = Cli(claude.home, {"COLUMNS": "140"})
    screen = wide("cost", "explain", FORK, "--color", "always").out
    assert f"in brackets, not part of the sum: counted in claude:{TOOL_SESSION}\n" in screen
    assert "Counted in" in screen.splitlines()[1]


def test_agents_are_listed_with_name_and_tier(both: Cli) -> None:
    agents = both("adapters", "list", "--json").json()
    assert {(each["name"], each["tier"]) for each in agents} >= {
        ("claude", "spec"),
        ("codex", "spec"),
    }
    assert [row[0] for row in both("agents", "-a", "codex").rows()] == ["codex"]


def test_the_overview_shows_agents_last_sessions_and_the_week(both: Cli) -> None:
    rows = both().rows()
    assert [row[:2] for row in rows[:2]] == [["agent", "claude"], ["agent", "codex"]]
    assert len([row for row in rows if row[0] == "session"]) == 5
    assert rows[-1][0] == "week"
    assert {"agents", "recent", "week"} <= both("--json").json().keys()


def test_an_empty_home_gets_a_helpful_note(empty: Cli) -> None:
    result = empty()
    assert (result.code, result.out) == (0, "")
    assert result.err.startswith("note: no sessions")
    assert "`amux --demo`" in result.err
    assert empty("list", "--json").json() == []
    assert empty("cost", "--json").json()["totalUsd"] == 0
    assert [row[0] for row in empty("cost").rows()] == ["total"]


def test_another_home_is_read_without_its_owners_variables(both: Cli, tmp_path: Path) -> None:
    elsewhere = Cli(tmp_path, {"CLAUDE_CONFIG_DIR": str(tmp_path), "CODEX_HOME": str(tmp_path)})
    assert elsewhere("list").out == ""
    assert elsewhere("--home", str(both.home), "list").out == both("list").out
    assert elsewhere("list", "--home", "home", cwd=tmp_path).out == both("list").out


def test_settings_are_shown_with_their_origin(empty: Cli, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (config / "config.json").write_text('{"timezone": "Europe/Berlin", "colour": 1}')
    result = empty("config", "show", "--config-dir", str(config))
    assert ["timezone", "Europe/Berlin", str(config / "config.json")] in result.rows()
    assert ["color", "auto", "default"] in result.rows()
    assert "warning: unknown key `colour`" in result.err
    settings = empty("config", "show", "--json").json()
    assert {"key": "timezone", "value": "UTC", "origin": "default"} in settings


def test_nothing_is_written_into_the_home(both: Cli) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {
            str(path): (path.stat().st_size, path.stat().st_mtime_ns)
            for path in both.home.rglob("*")
        }

    before = state()
    for words in ([], ["list"], ["search", "hello"], ["cost"], ["show", PARENT], ["agents"]):
        assert both(*words).code == 0
    assert state() == before
