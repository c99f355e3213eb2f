"""Measure how soon an agent is ready: `python benchmarks/bench_framework.py [runs]`.

A process imports the framework and resumes a session of 1,000 turns with its state; then it says
that it is ready. The target is three times the time of an empty Python program plus 30 ms. The
programs take turns, so that a busy machine slows all of them alike; medians count.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

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
print("ready", flush=True)
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


def seconds_of(command: list[str], env: dict[str, str]) -> float:
    """Return how long a program takes until it says something, or ends without a word."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        seconds = time.perf_counter() - start
        process.stdout.read()
    assert process.returncode == 0
    return seconds


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
        times: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(runs + 1):
            for name, command in commands.items():
                seconds = seconds_of(command, env)
                if number:  # the first run writes the bytecode
                    times[name].append(seconds)
    medians = {name: median(found) for name, found in times.items()}
    limit = FACTOR * medians[BASE] + EXTRA_SECONDS
    for name, seconds in medians.items():
        print(f"{seconds * 1000:8.1f} ms  {name}")
    verdict = "met" if medians[READY] <= limit else "missed"
    print(f"{limit * 1000:8.1f} ms  wanted for the resume at most: {verdict}")


if __name__ == "__main__":
    main()
