"""Measure how soon an agent is ready: `python benchmarks/bench_framework.py [runs]`.

A process imports the framework and resumes a session of 1,000 turns with its state; then it says
that it is ready. The target is three times the time of an empty Python program plus 30 ms. The
programs take turns, so that a busy machine slows all of them alike; medians count. The 30 ms do not
grow with the load of the machine, so the processor time until then is measured, too.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import amux

TURNS = 1000
FACTOR, EXTRA_SECONDS = 3.0, 0.030
BASE = "python -c pass"
READY = "resume a session of 1,000 turns"
CONVERSATION = "and read its 2,000 messages"
PROGRAM = """
import sys
import amux
session = amux.framework(sys.argv[1]).resume(sys.argv[2])
"""
SAY = """
assert session.report.is_complete
import time
print(time.process_time(), flush=True)
"""
READ = """
assert len(session.conversation()) == 2000
"""


def make_session(base: Path) -> str:
    """Make a session with questions, billed answers and a state; return its id."""
    store = amux.SessionStore(base, fsync="never")
    with amux.framework(store) as sm:
        session = sm.start_session(cwd=str(base), model="opus", title="A long session")
        for number in range(TURNS):
            session.message("user", f"question {number}: " + "what about this? " * 15)
            usage = {"input_tokens": 900, "output_tokens": 200}
            session.message("assistant", "It is like that. " * 30, usage=usage, cost_usd=0.01)
        session.state.todos = [{"text": f"item {number}"} for number in range(20)]
        sm.checkpoint(session)
        store.list()
        return session.thread_id


class Seconds(NamedTuple):
    """The time until a program is ready: on the clock, and of the processor."""

    wall: float
    cpu: float


def seconds_of(command: list[str], env: dict[str, str]) -> Seconds:
    """Return how long a program takes until it prints its time, or ends without a word."""
    before = _cpu_of_children()
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        printed = process.stdout.read(1)
        wall = time.perf_counter() - start
        printed += process.stdout.read()
    assert process.returncode == 0
    return Seconds(wall, float(printed) if printed else _cpu_of_children() - before)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print the medians and whether the target is met."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    with tempfile.TemporaryDirectory(prefix="amux-bench-") as folder:
        base = Path(folder) / "store"
        given = [str(base), make_session(base)]
        commands = {
            BASE: [sys.executable, "-c", "pass"],
            READY: [sys.executable, "-c", PROGRAM + SAY, *given],
            CONVERSATION: [sys.executable, "-c", PROGRAM + READ + SAY, *given],
        }
        times: dict[str, list[Seconds]] = {name: [] for name in commands}
        for number in range(runs + 1):
            for name, command in commands.items():
                measured = seconds_of(command, env)
                if number:  # the first run writes the bytecode
                    times[name].append(measured)
    for number, kind in enumerate(Seconds._fields):
        medians = {name: median(each[number] for each in found) for name, found in times.items()}
        limit = FACTOR * medians[BASE] + EXTRA_SECONDS
        print(f"{kind} time")
        for name, seconds in medians.items():
            print(f"{seconds * 1000:8.1f} ms  {name}")
        verdict = "met" if medians[READY] <= limit else "missed"
        print(f"{limit * 1000:8.1f} ms  wanted for the resume at most: {verdict}")


if __name__ == "__main__":
    main()
