"""Worker processes are forked only while no other thread runs, since it might hold a lock."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from child_processes import child_env

BEGIN = """
import _thread, os, threading
from amux.index.pool import work_through

def work(task):
    return os.getpid().to_bytes(4)

def results():
    return work_through(range(9), work, workers=2)

def tell(found):
    made_by = dict(found)
    assert sorted(made_by) == [*range(9)]
    print(len({*made_by.values()} - {work(0)}), flush=True)
"""
ALONE = "tell(results())"
BESIDE_A_THREAD = """
over = threading.Event()
threading.Thread(target=over.wait).start()
tell(results())
over.set()
"""
WITH_A_THREAD_STARTED_ON_THE_WAY = """
over = threading.Event()
found = results()
first = next(found)
threading.Thread(target=over.wait).start()
tell([first, *found])
over.set()
"""
IN_A_THREAD_NOBODY_COUNTS = """
over = _thread.allocate_lock()
over.acquire()

def ask():
    tell(results())
    over.release()

_thread.start_new_thread(ask, ())
over.acquire()
"""


def count_of_helpers(script: str) -> int:
    command = [sys.executable, "-c", BEGIN + script]
    result = subprocess.run(
        command, capture_output=True, text=True, env=child_env(), timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    return int(result.stdout)


def test_a_process_with_one_thread_forks_workers() -> None:
    may_fork = hasattr(os, "fork") and sys.platform != "darwin"
    assert (count_of_helpers(ALONE) > 0) == may_fork


@pytest.mark.parametrize(
    "script",
    [BESIDE_A_THREAD, WITH_A_THREAD_STARTED_ON_THE_WAY, IN_A_THREAD_NOBODY_COUNTS],
    ids=["beside a thread", "a thread started on the way", "in a thread nobody counts"],
)
def test_a_process_with_several_threads_forks_no_workers(script: str) -> None:
    assert count_of_helpers(script) == 0
