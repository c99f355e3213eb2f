"""Measure the start of the command beyond Python: `python benchmarks/bench_start_up.py [runs]`.

The commands take turns, so that a busy machine slows all of them alike; the fastest run of each
counts. The target is less than three times the time of an empty Python program.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

WISH = 3.0
SCRIPT = str(Path(sys.executable).with_name("amux"))
BASE = "python -c pass"
COMMANDS = {
    BASE: [sys.executable, "-c", "pass"],
    "amux --version": [SCRIPT, "--version"],
    "amux --help": [SCRIPT, "--help"],
}


def seconds_of(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    best = dict.fromkeys(COMMANDS, float("inf"))
    for _ in range(runs):
        for name, command in COMMANDS.items():
            best[name] = min(best[name], seconds_of(command))
    for name, seconds in best.items():
        ratio = seconds / best[BASE]
        verdict = "" if ratio < WISH else f"  more than {WISH:g} times"
        print(f"{seconds * 1000:8.1f} ms  {ratio:5.2f} x  {name}{verdict}")


if __name__ == "__main__":
    main()
