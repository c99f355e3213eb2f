"""Every command that uses the run index reports the lines that it cannot read."""

from __future__ import annotations

import pytest
from builders import write_claude, write_runs
from cli_process import Cli

from amux import SessionListOptions, SessionQuery, create_client


@pytest.fixture
def torn(empty: Cli) -> Cli:
    session = write_claude(empty.home, 1)
    path = write_runs(empty.home, {"sessionId": session.session_id, "tags": ["x"]})
    with path.open("a", encoding="utf-8") as file:
        file.write('not JSON\n{"v": 1}\n')
    return empty


@pytest.mark.parametrize(
    "words",
    [
        *("list", "list --json", "list claude --tag x", "search hello"),
        *("cost", "cost --json", "cost blocks", "--json", "doctor --files"),
    ],
)
def test_unusable_lines_of_the_run_index_are_reported(torn: Cli, words: str) -> None:
    whole = [torn(*words.split()) for _ in range(2)]  # the second time from the index
    for result in whole:
        assert result.code == 0
        assert result.out
        (told,) = [line for line in result.err.splitlines() if "while reading" in line]
        assert told.startswith("warning: 2 problems while reading: ")
        assert "run-index.jsonl" in told


@pytest.mark.parametrize("index", ["on", "off"])
def test_library_reports_contain_problems_of_the_run_index(torn: Cli, index: str) -> None:
    client = create_client(env={"HOME": str(torn.home), "AMUX_INDEX": index})
    for _ in range(2):
        listed = client.list_report(None, SessionListOptions()).problems
        found = client.search_report(SessionQuery(text="hello")).problems
        assert [each.code for each in listed] == ["bad-line", "bad-record"]
        assert listed == found == client.run_index.problems
