"""How fast a home is read, and in how much memory: `python benchmarks/bench_read.py [megabytes]`.

Every command runs as a process of its own, as a person would start it; the best of three counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from corpus import write_corpus

MB = 1 << 20
RUNS = 3
COMMANDS = ("list --limit all", "cost report --group-by model", "search bado OR lumo")
_PEAK_PER_MB = MB if sys.platform == "darwin" else 1024


def measure(home: Path, words: str) -> tuple[float, float]:
    """Seconds, and the most megabytes held."""
    command = [sys.executable, "-m", "amux", "--home", str(home), "--json", "-q", *words.split()]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"`{words}` ended with {process.returncode}")
    return seconds, usage.ru_maxrss / _PEAK_PER_MB


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    with TemporaryDirectory(prefix="amux-bench-") as place:
        home = Path(place)
        size = write_corpus(home, wanted * MB) / MB
        files = sum(1 for _ in home.rglob("*.jsonl"))
        print(f"{size:8.1f} MB in {files} sessions")
        for words in COMMANDS:
            runs = [measure(home, words) for _ in range(RUNS)]
            seconds, peak = min(runs)[0], max(peak for _, peak in runs)
            print(f"{seconds:8.3f} s  {size / seconds:6.0f} MB/s  {peak:5.0f} MB peak  {words}")


if __name__ == "__main__":
    main()
