"""Measure whole processes: processor time including children, elapsed time, memory.

Programs take turns, round after round, so that a busy machine slows all of them alike; of every
program the least of all rounds counts. A program that fails is reported with the reason.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

_PEAK_PER_MB: Final = 1 << 20 if sys.platform == "darwin" else 1024


class Figures(NamedTuple):
    """Seconds of processor time (user and system, with all children), seconds, megabytes."""

    cpu: float
    wall: float
    peak: float


class Failure(NamedTuple):
    """The reason why there are no figures."""

    reason: str


Result = Figures | Failure


@dataclass(slots=True)
class Task:
    """A program to be measured."""

    command: Sequence[str]
    env: Mapping[str, str]
    output: Path
    prepare: Callable[[], None] | None = None  # before every run, not measured
    times: int = 1  # runs per round: quick programs need more
    results: list[Result] = field(default_factory=list[Result])

    def run(self) -> None:
        """Run the program once and record the figures."""
        if self.prepare is not None:
            self.prepare()
        self.results.append(run_once(self.command, self.env, self.output))

    @property
    def best(self) -> Result:
        """Return the least times and the peak memory of all runs; a failure if any run failed."""
        runs = [result for result in self.results if isinstance(result, Figures)]
        if len(runs) < len(self.results) or not runs:
            return next(
                (result for result in self.results if isinstance(result, Failure)),
                Failure("not run"),
            )
        cpus, walls, peaks = zip(*runs, strict=True)
        return Figures(min(cpus), min(walls), max(peaks))


def run_rounds(tasks: Mapping[str, Task], rounds: int) -> dict[str, Result]:
    """Run every program in turn, for the given number of rounds."""
    for number in range(rounds):
        for name, task in tasks.items():
            print(f"  round {number + 1} of {rounds}: {name}", file=sys.stderr, flush=True)
            for _ in range(task.times):
                task.run()
    return {name: task.best for name, task in tasks.items()}


def run_once(command: Sequence[str], env: Mapping[str, str], output: Path) -> Result:
    """Run a program to its end; stdout and stderr are written to files."""
    output.parent.mkdir(parents=True, exist_ok=True)
    complaints = output.with_suffix(".err")
    with output.open("wb") as out, complaints.open("wb") as err:
        start = time.perf_counter()
        try:
            process = subprocess.Popen(
                command, env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )
        except OSError as error:
            return Failure(f"cannot be started: {error.strerror}")
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        # The output may contain paths of this machine, which must not be published.
        print(complaints.read_text(encoding="utf-8", errors="replace"), file=sys.stderr)
        return Failure(f"ended with {process.returncode}")
    return Figures(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / _PEAK_PER_MB)


def own_environment() -> dict[str, str]:
    """Return the environment without variables that affect the modules or paths of amux."""
    kept = ("PATH", "LANG", "SYSTEMROOT")
    return {name: os.environ[name] for name in kept if name in os.environ}
