"""The run index is read line by line, merged by run, and never fails."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amux.host import Host
from amux.model.cost import CostRecord
from amux.run_index import RecordedRun, RunIndex, read_run_index

START = "2025-03-01T10:00:00Z"
END = "2025-03-01T10:05:00.250Z"


def line(run_id: str = "01JRUN", **fields: Any) -> dict[str, Any]:
    return {"v": 1, "runId": run_id, "agent": "claude", "timestamp": START, "tags": [], **fields}


def write_index(folder: Path, *lines: dict[str, Any] | bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "run-index.jsonl"
    path.write_bytes(
        b"".join(
            entry if isinstance(entry, bytes) else json.dumps(entry).encode() + b"\n"
            for entry in lines
        )
    )
    return path


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "home")


def read_lines(host: Host, *lines: dict[str, Any] | bytes) -> RunIndex:
    write_index(host.config_dir(), *lines)
    return read_run_index(host)


def test_no_file_is_an_index_without_runs(host: Host) -> None:
    index = read_run_index(host)
    assert (index.runs, index.problems) == ((), ())
    assert index.tags_of("claude", "s") == ()


def test_a_whole_line_becomes_a_run(host: Host) -> None:
    cost = {"totalUsd": 0.5, "inputTokens": 10, "outputTokens": 20, "thinkingTokens": 5}
    entry = line(model="opus", sessionId="s1", cost=cost, tags=["a"], projectId="p")
    index = read_lines(host, entry)
    assert index.runs == (
        RecordedRun(
            run_id="01JRUN",
            agent="claude",
            at=datetime(2025, 3, 1, 10, tzinfo=UTC),
            model="opus",
            session_id="s1",
            cost=CostRecord(
                total_usd=0.5,
                input_tokens=10,
                output_tokens=20,
                thinking_tokens=5,
                source="run-index",
            ),
            tags=("a",),
            project_id="p",
        ),
    )


def test_start_and_end_of_a_run_are_merged_field_by_field_and_the_last_word_wins(
    host: Host,
) -> None:
    cost = {"totalUsd": 1.0, "inputTokens": 1, "outputTokens": 2}
    index = read_lines(
        host,
        line(model="old", tags=["x"], projectId="p"),
        line("OTHER"),
        line(timestamp=END, model="new", sessionId="s", cost=cost),
    )
    assert [run.run_id for run in index.runs] == ["01JRUN", "OTHER"]
    run = index.runs[0]
    assert (run.model, run.session_id, run.tags, run.project_id) == ("new", "s", ("x",), "p")
    assert run.at == datetime(2025, 3, 1, 10, 5, 0, 250000, tzinfo=UTC)
    assert run.cost is not None
    assert run.cost.total_usd == 1.0


def test_null_values_are_ignored(host: Host) -> None:
    index = read_lines(host, line(model="m", tags=["x"]), line(model=None, tags=None))
    assert (index.runs[0].model, index.runs[0].tags) == ("m", ("x",))


def test_a_killed_run_leaves_its_first_line_and_counts(host: Host) -> None:
    index = read_lines(host, line(sessionId="s"))
    assert len(index.runs_of("claude", "s")) == 1
    assert index.runs[0].cost is None


def test_three_runs_of_one_session_are_found_by_the_session(host: Host) -> None:
    index = read_lines(host, *(line(name, sessionId="s", tags=["t", name]) for name in "abc"))
    assert [run.run_id for run in index.runs_of("claude", "s")] == ["a", "b", "c"]
    assert index.tags_of("claude", "s") == ("t", "a", "b", "c")
    assert index.runs_of("codex", "s") == ()


def test_the_users_and_the_nearest_projects_index_are_merged(host: Host, tmp_path: Path) -> None:
    project = tmp_path / "work" / "project"
    write_index(host.config_dir(), line("HOME"), line("BOTH", model="home", tags=["h"]))
    write_index(project / ".agent-mux", line("BOTH", model="project"), line("PROJECT"))
    write_index(tmp_path / "work" / ".agent-mux", line("FARTHER"))
    index = read_run_index(host, project / "src" / "deep")
    assert [(run.run_id, run.model) for run in index.runs] == [
        ("HOME", None),
        ("BOTH", "project"),
        ("PROJECT", None),
    ]
    assert index.runs[1].tags == ("h",)


def test_the_project_folder_may_be_given_by_the_environment(tmp_path: Path) -> None:
    write_index(tmp_path / "elsewhere", line("ENV"))
    host = Host(tmp_path / "home", env={"AGENT_MUX_PROJECT_DIR": str(tmp_path / "elsewhere")})
    assert [run.run_id for run in read_run_index(host, tmp_path).runs] == ["ENV"]


def test_a_project_below_the_home_does_not_read_the_users_index_twice(host: Host) -> None:
    write_index(host.config_dir(), b"broken\n", line())
    index = read_run_index(host, host.home / "project")
    assert (len(index.runs), len(index.problems)) == (1, 1)


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (b"{broken\n", "bad-line"),
        (b"\xff\xfe{}\n", "bad-line"),
        (b'{"v":1,"runId":"torn","agent":"cl', "torn-tail"),
        (b'{"v":1,"runId":"x"}\n', "bad-record"),
        (b"[]\n", "bad-record"),
        (b'{"v":2,"runId":7}\n', "unknown-format"),
        (json.dumps(line(v=2)).encode() + b"\n", "unknown-format"),
        (json.dumps(line(timestamp="yesterday")).encode() + b"\n", "bad-record"),
        (
            json.dumps(line(cost={"totalUsd": -1, "inputTokens": 0, "outputTokens": 0})).encode(),
            "bad-record",
        ),
    ],
)
def test_an_unusable_line_is_a_problem_and_affects_only_itself(
    host: Host, bad: bytes, code: str
) -> None:
    index = read_lines(host, line("GOOD"), bad)
    assert [run.run_id for run in index.runs] == ["GOOD"]
    assert [(problem.code, problem.line) for problem in index.problems] == [(code, 2)]
    assert index.problems[0].path == str(host.config_dir() / "run-index.jsonl")


def test_noise_between_lines_is_not_a_problem(host: Host) -> None:
    whole = json.dumps(line("LAST")).encode()
    index = read_lines(host, b"\xef\xbb\xbf", line("FIRST"), b"\r\n", b"\x00\x00\n", whole)
    assert [run.run_id for run in index.runs] == ["FIRST", "LAST"]
    assert index.problems == ()


def test_an_impossible_time_does_not_fail(host: Host) -> None:
    index = read_lines(host, line(timestamp="0001-01-01T00:00:00+14:00"))
    assert index.runs[0].at.year == 1


def test_an_index_that_is_a_directory_is_a_problem(host: Host) -> None:
    (host.config_dir() / "run-index.jsonl").mkdir(parents=True)
    assert [problem.code for problem in read_run_index(host).problems] == ["unreadable"]


@given(content=st.binary(max_size=300))
def test_any_bytes_in_the_run_index_can_be_read(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    host = Host(tmp_path_factory.mktemp("home"))
    assert len(read_lines(host, content).runs) <= content.count(b"{")
