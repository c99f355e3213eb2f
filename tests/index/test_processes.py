"""Several processes share the index, and some are killed: no data is lost, no answer is wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from builders import write_claude, write_codex
from child_processes import child_env

from amux import create_client
from amux.model.options import SessionListOptions
from amux.model.usage import Tokens

USED = Tokens(input=10, output=20)
ASK = """
import sys, msgspec
from amux import create_client
from amux.model.options import SessionListOptions
with create_client(home=sys.argv[1], env={"AMUX_CACHE_DIR": sys.argv[2]}) as client:
    report = client.list_report(None, SessionListOptions(limit=None))
    said = [report, client.sessions.total_cost(group_by="day")]
    sys.stdout.buffer.write(msgspec.json.encode(said))
"""


def direct(home: Path) -> bytes:
    with create_client(home=home) as client:
        report = client.list_report(None, SessionListOptions(limit=None))
        return msgspec.json.encode([report, client.sessions.total_cost(group_by="day")])


def start(home: Path, cache: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", ASK, str(home), str(cache)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=child_env()
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    for number in range(1, 400):
        write_claude(home, number, cwd=f"/src/p{number % 5}", tokens=USED, turns=3)
        write_codex(home, 1000 + number, tokens=USED)
    age(*home.rglob("*"))
    return home


def age(*paths: Path) -> None:
    """As if they had been written a while ago."""
    past = time.time() - 60
    for path in paths:
        os.utime(path, (past, past))


def test_processes_that_update_at_once_all_answer_correctly(home: Path, tmp_path: Path) -> None:
    wanted = direct(home)
    processes = [start(home, tmp_path / "cache") for _ in range(4)]
    answers = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, answers
    assert [answer for answer, _ in answers] == [wanted] * 4
    last = start(home, tmp_path / "cache")
    assert last.communicate(timeout=120)[0] == wanted


def test_a_process_killed_during_an_update_leaves_a_valid_index(home: Path, tmp_path: Path) -> None:
    wanted = direct(home)
    for seconds in (0.15, 0.3, 0.45, 0.6, 0.75):
        process = start(home, tmp_path / "cache")
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.communicate(timeout=120)
    last = start(home, tmp_path / "cache")
    answer, error = last.communicate(timeout=120)
    assert answer == wanted, error


def test_rows_rebuilt_by_another_process_during_a_search_are_queried_again(
    tmp_path: Path,
) -> None:
    home, env = tmp_path / "home", {"AMUX_CACHE_DIR": str(tmp_path / "cache")}
    waiting = [write_claude(home, number, prompt="hello") for number in (1, 2)]

    def change_it_elsewhere(done: int, total: int, what: str) -> None:
        if not waiting:
            return
        while waiting:
            age(waiting.pop().prompt("hello again").write())
        with create_client(home=home, env=env) as other:
            other.sessions.list("claude")

    age(*home.rglob("*"))
    with create_client(home=home, env=env) as client:
        client.sessions.list("claude")
        age(write_claude(home, 3, prompt="hello").write())
        client.sessions.list("claude")  # its row is the last: those that change will lie behind it
        client.watch(change_it_elsewhere)
        found = client.sessions.search("hello")
        assert found == create_client(home=home).sessions.search("hello")
        assert sorted(each.hit_count or 0 for each in found) == [1, 2, 2]
        assert client.index.status().trouble is None
