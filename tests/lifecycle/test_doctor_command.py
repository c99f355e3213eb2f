"""`amux store doctor THREAD` shows what a resume brings back, and `stats` how resumes went."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from child_processes import child_env

import amux
from amux import SessionFramework


def run(store: Path, *words: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "amux", "store", *words],
        env=child_env(HOME=str(store.parent), AMUX_STORE=str(store)),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, done.stderr


@pytest.fixture
def sm(tmp_path: Path) -> SessionFramework:
    return amux.framework(tmp_path / "store")


def test_the_report_has_every_value_as_recorded_and_as_restored(
    sm: SessionFramework, tmp_path: Path
) -> None:
    session = sm.start_session(cwd=str(tmp_path), model="opus")
    session.state.todos = [{"text": "x" * 100}]
    sm.end(session)
    head = session.summary.head
    output, errors = run(tmp_path / "store", "doctor", session.thread_id)
    rows = [line.split("\t") for line in output.splitlines()]
    assert ["premise", "restored", "model", '"opus"', '"opus"'] in rows
    assert ["model", "restored", "model_override", "null", "null"] in rows
    (todos,) = (row for row in rows if row[0] == "todos")
    assert todos[3] == '[{"text":"' + "x" * 49 + "…"
    assert len(todos[3]) == 60
    assert errors == "note: 1 thread checked, nothing is wrong\n"
    assert session.summary.head == head


def test_the_report_is_json_too(sm: SessionFramework, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    session = sm.start_session(cwd=str(gone))
    gone.rmdir()
    report = json.loads(run(tmp_path / "store", "doctor", session.thread_id, "--json")[0])
    assert report["isHealthy"] is True
    restored = report["restore"]
    assert restored["isComplete"] is False
    assert [each["kind"] for each in restored["undecided"]] == ["cwd_missing"]
    assert restored["subsystems"][0]["name"] == "cost"
    plain = run(tmp_path / "store", "doctor", session.thread_id)[1]
    assert f"the working directory `{gone}` of the session does not exist" in plain
    assert "use_directory or keep" in plain
    assert "restore" not in json.loads(run(tmp_path / "store", "doctor", "--json")[0])


def test_a_failing_part_is_shown_with_its_reason(sm: SessionFramework, tmp_path: Path) -> None:
    session = sm.start_session(cwd="")
    session.set_register(
        "amux.snapshot", {"schema_version": 1, "subsystems": {"todos": {"todos": 7}}}
    )
    output, errors = run(tmp_path / "store", "doctor", session.thread_id)
    (todos,) = (line.split("\t") for line in output.splitlines() if line.startswith("todos"))
    assert todos[1] == "failed"
    assert "Expected `array`" in todos[4]
    assert "`todos` could not be restored" in errors


def test_stats_count_resumes(sm: SessionFramework, tmp_path: Path) -> None:
    session = sm.start_session(cwd="")
    sm.clear(sm.resume(session.thread_id))
    output, _ = run(tmp_path / "store", "stats")
    assert "resumes\t1\ncomplete_resumes\t1\ncleared_soon_after_resume\t1\n" in output
    stats = json.loads(run(tmp_path / "store", "stats", "--json")[0])
    assert stats["resumes"]["complete"] == 1
