"""Logs are listed newest first and found by the beginning of their id, never by a date."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from child_processes import child_env
from entry_samples import Clock, answer, user

from amux import (
    AmbiguousIdError,
    EntryLog,
    SessionNotFoundError,
    ValidationError,
    list_entry_logs,
)
from amux.model.problems import Problem

NOON = datetime(2026, 2, 26, 12, tzinfo=UTC)


def write(folder: Path, id: str, *, at: datetime = NOON, name: str | None = None) -> Path:
    """A log with an id that a test chooses."""
    stamp = at.strftime("%Y%m%d-%H%M%S")
    path = folder / (name or f"{stamp}-{id[:8]}.jsonl")
    folder.mkdir(exist_ok=True)
    path.write_text(
        f'{{"type":"session","id":"{id}","version":1,"timestamp":"{at.isoformat()}","cwd":"/p"}}\n'
    )
    return path


ONE = "a3f7c901-0000-4000-8000-000000000001"
TWO = "a3f7c9ff-0000-4000-8000-000000000002"
DATED = "20260000-0000-4000-8000-000000000003"


def test_logs_are_listed_newest_first(tmp_path: Path) -> None:
    ids = [f"{number:08x}-0000-4000-8000-000000000000" for number in (5, 3, 9, 1)]
    for number, id in enumerate(ids):
        write(tmp_path, id, at=NOON + timedelta(days=number))
    assert [info.id for info in list_entry_logs(tmp_path)] == ids[::-1]


def test_of_one_second_the_log_that_was_written_last_is_the_newest(tmp_path: Path) -> None:
    ids = [f"{number:08x}-0000-4000-8000-000000000000" for number in (5, 9, 1)]
    for number, id in enumerate(ids):
        os.utime(write(tmp_path, id), ns=(number, number))
    assert [info.id for info in list_entry_logs(tmp_path)] == ids[::-1]


def test_a_listed_log_has_its_facts(tmp_path: Path) -> None:
    log = EntryLog.create(tmp_path, "/home/user/project", now=Clock(NOON))
    log.append_message(answer("no prompt"))
    log.append_message({"role": "user", "content": []})
    log.append_message(user("  Fix\n the   login " + "x" * 200))
    log.append_message(user("later"))
    (info,) = list_entry_logs(tmp_path)
    assert (info.id, info.file_path, info.cwd) == (log.id, log.file_path, log.cwd)
    assert (info.created, info.message_count, info.problems) == (NOON, 4, ())
    assert info.first_message == ("Fix the login " + "x" * 200)[:99] + "…"


def test_a_missing_directory_has_no_logs(tmp_path: Path) -> None:
    assert list_entry_logs(tmp_path / "none") == []
    assert not (tmp_path / "none").exists()


def test_only_files_with_the_ending_are_logs(tmp_path: Path) -> None:
    write(tmp_path, ONE)
    write(tmp_path, TWO, name="notes.json")
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    assert [info.id for info in list_entry_logs(tmp_path)] == [ONE]
    assert EntryLog.load(tmp_path, "a3").id == ONE


def test_files_without_a_session_are_left_out_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, ONE)
    (tmp_path / "empty.jsonl").write_bytes(b"")
    (tmp_path / "other.jsonl").write_bytes(b'{"a":1}\n')
    newer = write(tmp_path, TWO)
    newer.write_text(newer.read_text().replace('"version":1', '"version":3'))
    problems: list[Problem] = []
    with caplog.at_level(logging.WARNING, logger="amux"):
        assert [info.id for info in list_entry_logs(tmp_path, problems=problems)] == [ONE]
        assert caplog.records == []
        list_entry_logs(tmp_path)
    assert len(caplog.records) == 1
    assert {problem.code for problem in problems} == {"unknown-format"}
    names = {Path(problem.path or "").name for problem in problems}
    assert names == {"empty.jsonl", "other.jsonl", newer.name}


def test_a_file_in_place_of_the_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    problems: list[Problem] = []
    assert list_entry_logs(tmp_path / "file", problems=problems) == []
    assert [problem.code for problem in problems] == ["unreadable"]


def test_bad_lines_of_a_listed_log_are_its_problems(tmp_path: Path) -> None:
    with write(tmp_path, ONE).open("a") as stream:
        stream.write("nonsense\n")
    (info,) = list_entry_logs(tmp_path)
    assert [(problem.code, problem.line) for problem in info.problems] == [("bad-line", 2)]


def test_a_log_without_a_header_is_called_by_its_file(tmp_path: Path) -> None:
    log = EntryLog.create(tmp_path, "/p", now=Clock(NOON))
    log.append_message(user("kept"))
    data = log.file_path.read_bytes()
    log.file_path.write_bytes(b"torn" + data[data.index(b"\n") :])
    (info,) = list_entry_logs(tmp_path)
    assert (info.id, info.cwd, info.first_message) == (log.file_path.stem, "", "kept")
    assert info.created == NOON, "the date in its name"
    found = EntryLog.load(tmp_path, log.id[:8])
    assert found.file_path == log.file_path
    found.append_message(user("more"))
    assert len(found.messages()) == 2


@pytest.mark.parametrize("prefix", ["a3f7c901", "a3f7c90", "A3F7C901", f" {ONE}\n", ONE.upper()])
def test_a_log_is_found_by_the_beginning_of_its_id(prefix: str, tmp_path: Path) -> None:
    path = write(tmp_path, ONE)
    write(tmp_path, TWO)
    assert EntryLog.load(tmp_path, prefix).file_path == path


def test_a_beginning_of_several_ids_is_an_error_that_names_them(tmp_path: Path) -> None:
    write(tmp_path, ONE)
    write(tmp_path, TWO)
    with pytest.raises(AmbiguousIdError) as caught:
        EntryLog.load(tmp_path, "a3f7c9")
    assert caught.value.candidates == (ONE, TWO)
    assert caught.value.hint is not None
    assert ONE in caught.value.hint
    assert caught.value.exit_code == 8


def test_one_id_in_two_files_is_an_error_that_names_the_files(tmp_path: Path) -> None:
    write(tmp_path, ONE, name="a.jsonl")
    write(tmp_path, ONE, name="b.jsonl")
    with pytest.raises(AmbiguousIdError) as caught:
        EntryLog.load(tmp_path, ONE)
    assert caught.value.hint is not None
    assert "a.jsonl, b.jsonl" in caught.value.hint


@pytest.mark.parametrize("prefix", ["20260226", "2026", "143012", "f7c9", "jsonl", "zzz", "%", "*"])
def test_neither_dates_nor_parts_of_names_are_found(prefix: str, tmp_path: Path) -> None:
    write(tmp_path, ONE)
    with pytest.raises(SessionNotFoundError) as caught:
        EntryLog.load(tmp_path, prefix)
    assert prefix in caught.value.message
    assert caught.value.exit_code == 8


def test_an_id_that_begins_like_a_date_is_found_by_it(tmp_path: Path) -> None:
    write(tmp_path, ONE)
    write(tmp_path, DATED)
    assert EntryLog.load(tmp_path, "2026").id == DATED


def test_without_a_beginning_nothing_is_looked_for(tmp_path: Path) -> None:
    write(tmp_path, ONE)
    for blank in ("", " "):
        with pytest.raises(ValidationError):
            EntryLog.load(tmp_path, blank)


def test_in_a_missing_directory_nothing_is_found(tmp_path: Path) -> None:
    with pytest.raises(SessionNotFoundError):
        EntryLog.load(tmp_path / "none", "a3")
    assert not (tmp_path / "none").exists()


def test_a_directory_may_be_given_as_text(tmp_path: Path) -> None:
    log = EntryLog.create(str(tmp_path / "x"), "/p")  # type: ignore[arg-type]  # a caller without type checks
    assert [info.id for info in list_entry_logs(tmp_path / "x")] == [log.id]


# Root keeps its identity, but permissions hold for it too.
WITHOUT_POWERS = """
import ctypes, os, sys
from pathlib import Path
if os.geteuid() == 0:
    for power in (1, 2):
        assert ctypes.CDLL(None).prctl(24, power, 0, 0, 0) == 0
if len(sys.argv) < 3:
    os.execv(sys.executable, [sys.executable, "-c", sys.orig_argv[2], sys.argv[1], "again"])
import amux
folder, problems = Path(sys.argv[1]), []
print([info.id for info in amux.list_entry_logs(folder, problems=problems)])
print([(problem.code, problem.path) for problem in problems])
try:
    amux.EntryLog.load(folder, "a3f7c901")
except amux.AmuxError as error:
    print(error.code, error.hint)
"""


def run_without_powers(folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_POWERS, str(folder)],
        env=child_env(),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.splitlines()


def test_a_log_that_may_not_be_read_is_left_out_and_reported(tmp_path: Path) -> None:
    closed = write(tmp_path, ONE)
    write(tmp_path, TWO)
    closed.chmod(0)
    listed, problems, found = run_without_powers(tmp_path)
    assert listed == str([TWO])
    assert problems == str([("unreadable", str(closed))])
    assert found.startswith("SESSION_NOT_FOUND")
    assert str(closed) in found


def test_a_directory_that_may_not_be_read_has_no_logs_and_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    write(folder, ONE)
    folder.chmod(0)
    listed, problems, found = run_without_powers(folder)
    folder.chmod(0o700)
    assert listed == "[]"
    assert problems == str([("unreadable", str(folder))])
    assert found.startswith("SESSION_NOT_FOUND")
