"""Compare amux with an earlier version of itself: `BEFORE=REVISION bench_versions.py [S|M]...`.

The earlier version is taken from the history and installed below build/bench/versions. Both
versions answer the same questions about the same home, in turn and each with its own cache. Writes
docs/performance.md; without BEFORE, nothing is measured.
"""

from __future__ import annotations

import compileall
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from corpus import SIZES, Truth, make_corpus
from measure import Failure, Figures, Result, Task, own_environment, run_once, run_rounds
from report import conditions, table, write_section

ROOT: Final = Path(__file__).resolve().parent.parent
PLACE: Final = ROOT / "build" / "bench"
PAGE: Final = ROOT / "docs" / "performance.md"
ROUNDS: Final = {"XS": 2, "S": 3, "M": 2}
PHRASE_LIMITS: Final = {"XS": 30.0, "S": 30.0, "M": 200.0}
"""Milliseconds that a phrase with tool text may take."""

_SLOWER: Final = 1.1
"""The ratio up to which a job counts as not slower."""

_REPORT: Final = ("cost", "report")
_ALL: Final = ("sessions", "list", "--limit", "all")
_WORD: Final = ("search", "zqneedle003x")


class Job(NamedTuple):
    """A command of amux. Jobs with one cache follow each other, as on a person's first day."""

    words: tuple[str, ...]
    cache: str
    empty: str = ""  # the files that are deleted before the command runs
    times: int = 1
    index: bool = True


JOBS: Final = {
    "cost report, first": Job(_REPORT, "day", empty="*"),
    "list --limit all, after the report": Job(_ALL, "day"),
    "list, warm": Job(("sessions", "list"), "day", times=5),
    "cost report, again": Job(_REPORT, "day", times=3),
    "cost blocks, again": Job(("cost", "blocks"), "day", times=3),
    "amux alone, again": Job((), "day", times=3),
    "list --limit all, first": Job(_ALL, "list", empty="*"),
    "cost report, after the list": Job(_REPORT, "list"),
    "list --limit all, again": Job(_ALL, "list", times=3),
    "list, index off": Job(("sessions", "list"), "none", index=False),
    "list --limit all, index off": Job(_ALL, "none", index=False),
    "search, first": Job(_WORD, "day", empty="texts*"),
    "search, again": Job(_WORD, "day", times=3),
}


class Version(NamedTuple):
    """An installed version: its programs and its benchmarks."""

    name: str
    bin: Path
    benchmarks: Path


def install(revision: str) -> Version:
    """Install a revision of this repository, unless it is installed."""
    commit = _git("rev-parse", "--short", revision).decode().strip()
    place = PLACE / "versions" / commit
    if not (place / "complete").is_file():
        print(f"installing version {commit}", file=sys.stderr, flush=True)
        shutil.rmtree(place, ignore_errors=True)
        (place / "code").mkdir(parents=True)
        archive = _git("archive", commit)
        subprocess.run(["tar", "-x", "-C", str(place / "code")], input=archive, check=True)
        subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True)
        pip = [str(place / "venv" / "bin" / "python"), "-m", "pip", "-qq"]
        pins = _pinned(place / "code" / "pyproject.toml")
        subprocess.run([*pip, "install", *pins, "--editable", str(place / "code")], check=True)
        compileall.compile_dir(place / "code" / "src", quiet=1)
        (place / "complete").touch()
    return Version(commit, place / "venv" / "bin", place / "code" / "benchmarks")


def _pinned(project: Path) -> list[str]:
    """Return the exact version of the price catalogue for which the rates of amux are prepared."""
    with project.open("rb") as file:
        development: list[str] = tomllib.load(file)["dependency-groups"]["dev"]
    return [name for name in development if name.startswith("genai-prices==")]


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


class Comparison:
    """Two versions on one corpus."""

    def __init__(self, size: str, before: Version, now: Version) -> None:
        self._size, self._place = size, PLACE / size
        self._versions = {"before": before, "now": now}
        self._truth: Truth = make_corpus(self._place, size)
        shutil.rmtree(self._place / "versions", ignore_errors=True)

    def section(self) -> list[str]:
        """Measure everything and return the section of the page."""
        tasks = {
            f"{job}/{name}": self._task(JOBS[job], name) for job in JOBS for name in self._versions
        }
        python = [sys.executable, "-c", "pass"]
        tasks["python -c pass"] = Task(python, own_environment(), self._output("pass"), times=5)
        runs = run_rounds(tasks, ROUNDS[self._size])
        searches = {name: self._searches(name) for name in self._versions}
        return [
            *conditions(self._size, self._truth),
            f"Before is version {self._versions['before'].name}.",
            "",
            *table(["aim", "before", "now", "now / before", "wanted", ""], self._aims(runs)),
            *table(["job", "cpu before", "cpu now", "ratio", ""], _cpu_rows(runs)),
            *table(["search with tool text", "before", "now", "ratio", ""], _search_rows(searches)),
            f"A phrase should take at most {PHRASE_LIMITS[self._size]:g} ms.",
        ]

    def _task(self, job: Job, name: str) -> Task:
        folder = self._place / "versions" / name / job.cache

        def prepare() -> None:
            folder.mkdir(parents=True, exist_ok=True)
            for path in folder.glob(job.empty) if job.empty else ():
                path.unlink()

        home = str(self._place / "home")
        env = {**own_environment(), "HOME": home, "AMUX_CACHE_DIR": str(folder)}
        env |= {} if job.index else {"AMUX_INDEX": "off"}
        command = [str(self._versions[name].bin / "amux"), *job.words]
        return Task(command, env, self._output(f"{name}-{job.cache}"), prepare, job.times)

    def _output(self, name: str) -> Path:
        return self._place / "out" / f"versions-{name}.txt"

    def _searches(self, name: str) -> dict[str, Any]:
        """Return the medians of all kinds of queries, measured by the version's own script."""
        version, output = self._versions[name], self._output(f"{name}-searches")
        script = version.benchmarks / "search_rounds.py"
        cache = self._place / "versions" / name / "day"
        words = [str(version.bin / "python"), str(script), str(self._place / "home"), str(cache)]
        result = run_once(words, own_environment(), output)
        if isinstance(result, Failure):
            raise SystemExit(f"searching with {version.name}: {result.reason}")
        found: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
        return found

    def _aims(self, runs: Mapping[str, Result]) -> list[list[str]]:
        first = [_pair(runs, job, "cpu") for job in [*JOBS][:2]]
        both = tuple(sum(values) for values in zip(*first, strict=True))
        wall = _pair(runs, "search, first", "wall")
        python = _figures(runs, "python -c pass").wall
        warm = [seconds / python for seconds in _pair(runs, "list, warm", "wall")]
        return [
            ["first report and the list after it, cpu", *_seconds(*both), *_verdict(*both, 0.55)],
            ["first search, wall", *_seconds(*wall), *_verdict(*wall, 1 / 1.5)],
            [
                "warm list after a report, wall / `python -c pass`",
                *(f"{factor:.1f} x" for factor in warm),
                f"{warm[1] / warm[0]:.2f}",
                "at most 8 x",
                "met" if warm[1] <= 8 else "**missed**",
            ],
        ]


def _search_rows(searches: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    rows: list[list[str]] = []
    for kind, answers in searches["now"].items():
        before, now = searches["before"][kind]["search"][0], answers["search"][0]
        cells = [kind, f"{before:,.2f} ms", f"{now:,.2f} ms", f"{now / before:.2f}"]
        rows.append([*cells, "" if now <= before * _SLOWER else "**slower**"])
    return rows


def _cpu_rows(runs: Mapping[str, Result]) -> list[list[str]]:
    rows: list[list[str]] = []
    for job in JOBS:
        before, now = _pair(runs, job, "cpu")
        cells = [job, *_seconds(before, now), f"{now / before:.2f}"]
        rows.append([*cells, "" if now <= before * _SLOWER else "**slower**"])
    return rows


def _verdict(before: float, now: float, limit: float) -> list[str]:
    ratio = now / before
    verdict = "met" if ratio <= limit else "**missed**"
    return [f"{ratio:.2f}", f"at most {limit:.2f}", verdict]


def _pair(runs: Mapping[str, Result], job: str, figure: str) -> tuple[float, float]:
    before, now = (_figures(runs, f"{job}/{name}") for name in ("before", "now"))
    return getattr(before, figure), getattr(now, figure)


def _figures(runs: Mapping[str, Result], name: str) -> Figures:
    result = runs[name]
    if isinstance(result, Failure):
        raise SystemExit(f"{name}: {result.reason}")
    return result


def _seconds(*values: float) -> list[str]:
    return [f"{value:.3g} s" for value in values]


def main() -> None:
    revision = os.environ.get("BEFORE")
    if not revision:
        print("no earlier version is named (BEFORE=REVISION): nothing to compare")
        return
    sizes = sys.argv[1:] or (["S", "M"] if os.environ.get("BENCH") == "full" else ["S"])
    if not set(sizes) <= SIZES.keys():
        sys.exit(f"usage: python benchmarks/bench_versions.py [{'|'.join(SIZES)}]...")
    now = Version("now", Path(sys.executable).parent, Path(__file__).resolve().parent)
    before = install(revision)
    compileall.compile_dir(ROOT / "src", quiet=1)
    for size in sizes:
        lines = Comparison(size, before, now).section()
        print("\n".join(lines), flush=True)
        if size != "XS":
            write_section(PAGE, f"versions {size}", lines)


if __name__ == "__main__":
    main()
