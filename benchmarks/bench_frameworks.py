"""Measure agent frameworks with their own stores and with ours: a chat of 100 turns.

`python benchmarks/bench_frameworks.py` writes its section of docs/performance.md. The frameworks
are in the environment of `make frameworks`, so the measurement runs there: every module
`framework_<name>.py` has a function `measure(folder, url)`, which returns by the name of a store
the milliseconds per `turn` and per `load`, and the `bytes` that the chat takes. `first` is the load
of a new object, measured where objects keep what they have read. The stores of a
framework take turns, so that a busy machine slows all of them alike.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
PYTHON: Final = ROOT / "build" / "frameworks" / "bin" / "python"

_TIMES: Final = ("turn", "load", "first")

Measured = dict[str, dict[str, float]]


def modules() -> list[str]:
    """Return the modules that measure one framework each."""
    return sorted(path.stem for path in Path(__file__).parent.glob("framework_*.py"))


def measure_here(url: str) -> dict[str, Measured]:
    """Measure every framework in this process, which must have them all."""
    found: dict[str, Measured] = {}
    for name in modules():
        with tempfile.TemporaryDirectory(prefix="amux-bench-") as folder:
            module: Any = import_module(name)
            found[name.removeprefix("framework_")] = module.measure(Path(folder), url)
    return found


def measure() -> dict[str, Measured]:
    """Measure every framework in their environment, beside a server of our own."""
    from bench_store import postgres

    if not PYTHON.exists():
        subprocess.run(["make", "frameworks"], cwd=ROOT, check=True)
    with postgres() as url:
        done = subprocess.run(
            [PYTHON, __file__, "--here", url], stdout=subprocess.PIPE, check=True, text=True
        )
    found: dict[str, Measured] = json.loads(done.stdout.splitlines()[-1])
    return found


def lines_of(found: dict[str, Measured]) -> list[str]:
    """Return the figures of all frameworks as tables."""
    from report import table

    today = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    cores, busy = os.cpu_count() or 1, os.getloadavg()[0]
    machine = f"Python {platform.python_version()}, {cores} cores, load {busy:.1f} at the end"
    lines = [f"{today} UTC, {machine}, medians.", ""]
    if busy > cores:
        lines += ["**The machine was busy with other work: times are disturbed.**", ""]
    rows = [
        [framework, store, *(_millis(each, name) for name in _TIMES), _size(each)]
        for framework, stores in found.items()
        for store, each in stores.items()
    ]
    return [*lines, *table(["framework", "store", "turn", "load", "first load", "100 turns"], rows)]


def _millis(figures: dict[str, float], name: str) -> str:
    return f"{figures[name]:.2f} ms" if name in figures else ""


def _size(figures: dict[str, float]) -> str:
    return f"{figures['bytes'] / 1e3:,.0f} KB" if "bytes" in figures else ""


def main() -> None:
    if sys.argv[1:2] == ["--here"]:
        print(json.dumps(measure_here(sys.argv[2])))
        return
    from report import write_section

    lines = lines_of(measure())
    print("\n".join(lines))
    write_section(ROOT / "docs" / "performance.md", "frameworks", lines)


if __name__ == "__main__":
    main()
