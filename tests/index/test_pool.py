"""Workers are forked while no other thread runs, which might hold a lock; otherwise spawned."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from child_processes import child_env
from pool_work import in_folder, process_ids, squares

from amux.index.pool import can_fork, work_through

BEGIN = """
import _thread, os, sys, threading
sys.path.insert(0, sys.argv[1])
from amux.index.pool import work_through
from pool_work import process_ids

print("main module")

def results(**more):
    return work_through(range(9), process_ids, workers=2, **more)

def tell(found):
    made_by = dict(found)
    assert sorted(made_by) == [*range(9)]
    print(len({*made_by.values()} - {os.getpid().to_bytes(4)}), flush=True)
"""
ALONE = "tell(results())"
BESIDE_A_THREAD = """
over = threading.Event()
threading.Thread(target=over.wait).start()
tell(results(MORE))
over.set()
"""
WITH_A_THREAD_STARTED_ON_THE_WAY = """
over = threading.Event()
found = results(MORE)
first = next(found)
threading.Thread(target=over.wait).start()
tell([first, *found])
over.set()
"""
IN_A_THREAD_NOBODY_COUNTS = """
over = _thread.allocate_lock()
over.acquire()

def ask():
    tell(results(MORE))
    over.release()

_thread.start_new_thread(ask, ())
over.acquire()
"""
WITH_THREADS = pytest.mark.parametrize(
    "script",
    [BESIDE_A_THREAD, WITH_A_THREAD_STARTED_ON_THE_WAY, IN_A_THREAD_NOBODY_COUNTS],
    ids=["beside a thread", "a thread started on the way", "in a thread nobody counts"],
)


def count_of_helpers(script: str, more: str = "") -> int:
    command = [
        sys.executable,
        "-c",
        BEGIN + script.replace("MORE", more),
        str(Path(__file__).parent),
    ]
    result = subprocess.run(
        command, capture_output=True, text=True, env=child_env(), timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    first, last = result.stdout.splitlines()
    assert first == "main module", "and only once"
    return int(last)


def test_a_process_with_one_thread_forks_workers() -> None:
    may_fork = hasattr(os, "fork") and sys.platform != "darwin"
    assert (count_of_helpers(ALONE) > 0) == may_fork


@WITH_THREADS
def test_a_process_with_several_threads_forks_no_workers(script: str) -> None:
    assert count_of_helpers(script) == 0


@WITH_THREADS
def test_a_process_with_several_threads_spawns_workers_for_work_that_can_be_sent(
    script: str,
) -> None:
    assert count_of_helpers(script, "portable=process_ids") > 0


@contextmanager
def another_thread() -> Generator[None]:
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.fixture(params=["forked", "spawned"])
def workers(request: pytest.FixtureRequest) -> Generator[None]:
    """Both kinds of workers."""
    if request.param == "spawned":
        with another_thread():
            assert not can_fork()
            yield
    else:
        assert can_fork()
        yield


@pytest.mark.usefixtures("workers")
def test_every_result_arrives_with_the_number_of_its_task() -> None:
    results = [*work_through(range(50), squares, workers=3, portable=squares, first_here=False)]
    squared = {number: int(data.rstrip(b"\0")) for number, data in results if data[:3] != b"end"}
    assert squared == {number: number * number for number in range(50)}
    ends = sorted(data for _, data in results if data[:3] == b"end")
    assert ends == [b"end 0", b"end 1", b"end 2"]


@pytest.mark.usefixtures("workers")
def test_only_the_results_of_a_worker_that_died_are_missing(tmp_path: Path) -> None:
    work = in_folder(tmp_path)
    results = dict(work_through(range(40), work, workers=2, portable=work, first_here=False))
    assert set(range(40)) - results.keys() == {3}
    (saved,) = tmp_path.iterdir()
    assert set(json.loads(saved.read_text())) <= results.keys()


def children() -> set[int]:
    """Return the processes that this process has started and that still exist."""
    with subprocess.Popen(["ps", "-A", "-o", "pid=,ppid="], stdout=subprocess.PIPE) as ps:
        listed = [*map(int, ps.communicate()[0].split())]
    parents = dict(zip(listed[::2], listed[1::2], strict=True))
    return {pid for pid, parent in parents.items() if parent == os.getpid()} - {ps.pid}


@pytest.mark.usefixtures("workers")
def test_workers_save_what_they_have_and_end_if_nobody_takes_the_results(tmp_path: Path) -> None:
    work, before = in_folder(tmp_path), children()
    tasks = range(100, 100_000)
    results = work_through(tasks, work, workers=2, portable=work, first_here=False)
    next(results)
    results.close()
    saved = [json.loads(path.read_text()) for path in tmp_path.iterdir()]
    assert 0 < sum(map(len, saved)) < len(tasks)
    assert children() == before


def test_a_task_that_cannot_be_sent_is_missing() -> None:
    tasks = [1, lambda: 2, 3]
    with another_thread():
        results = work_through(
            tasks, process_ids, workers=2, portable=process_ids, first_here=False
        )
        assert sorted(number for number, _ in results) == [0, 2]


ENDLESS = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from amux.index.pool import work_through
from pool_work import process_ids
if sys.argv[2] == "spawned":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
for _, pid in work_through(range(10**7), process_ids, workers=2, portable=process_ids):
    print(int.from_bytes(pid), flush=True)
"""


@pytest.mark.parametrize("kind", ["forked", "spawned"])
def test_workers_end_with_a_process_that_is_killed(kind: str) -> None:
    command = [sys.executable, "-c", ENDLESS, str(Path(__file__).parent), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=child_env()) as process:
        assert process.stdout is not None
        seen = {int(process.stdout.readline()) for _ in range(500)} - {process.pid}
        process.send_signal(signal.SIGKILL)
        process.stdout.read()  # ends when no process has the other end
    assert seen
    deadline = time.monotonic() + 30
    while any(map(is_running, seen)):
        assert time.monotonic() < deadline


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
