"""Compare amux and its peers on synthetic homes: `python benchmarks/bench_peers.py [S|M]...`.

Writes docs/performance.md. Everything it needs is built or installed below build/bench and reused;
delete that directory to start from scratch. Times of one run can be compared with each other, but
not with those of another machine.
"""

from __future__ import annotations

import compileall
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.request import urlopen

import peers as known
from corpus import IDEOGRAPHS, SIZES, Truth, make_corpus, make_small_sessions
from measure import Failure, Figures, Result, Task, own_environment, run_once, run_rounds
from peers import Peers, Tokens, make_home, peer_env, plant_prices
from report import (
    SEARCH_WISH,
    Row,
    compare,
    conditions,
    memory_table,
    search_table,
    speed_table,
    table,
    token_table,
    write_section,
)
from search_rounds import QUERIES

ROOT: Final = Path(__file__).resolve().parent.parent
PLACE: Final = ROOT / "build" / "bench"
PAGE: Final = ROOT / "docs" / "performance.md"
ROUNDS: Final = {"XS": 2, "S": 3, "M": 2}
SMALL_SESSIONS: Final = 10_000
_TOO_LARGE: Final = "M"
"""The size at which agentsview is omitted because its first index takes too long."""

_TOO_LONG: Final = Failure("not run at this size, its first index takes too long")
_HERE: Final = Path(__file__).resolve().parent
Runs = Mapping[str, Result]


class Bench:
    """One size: its homes, its programs, its figures."""

    def __init__(self, size: str, peers: Peers) -> None:
        self.size, self.place, self.peers = size, PLACE / size, peers
        self.corpus = self.place / "home"
        self.truth: Truth = {}
        self.runs: dict[str, Result] = {}

    def prepare(self) -> None:
        """Write the corpus and a home for every peer."""
        print(f"corpus {self.size}", file=sys.stderr, flush=True)
        # In a process of its own: this one must stay small, a child begins with its parent's peak.
        subprocess.run(
            [sys.executable, str(_HERE / "corpus.py"), self.size, str(self.place)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        self.truth = make_corpus(self.place, self.size)
        make_small_sessions(PLACE / "small", SMALL_SESSIONS)
        for name in ("ccusage", "tokscale", "agentsview", "claude-agent-sdk"):
            make_home(self.corpus, self.home(name))
        plant_prices(self.home("tokscale"))
        shutil.rmtree(self.place / "cache", ignore_errors=True)

    def home(self, peer: str) -> Path:
        """Return the home of a peer."""
        return self.place / "homes" / peer

    def output(self, name: str) -> Path:
        """Return the output of a program."""
        return self.place / "out" / f"{name}.txt"

    def measure(self) -> None:
        """Run everything."""
        tasks = {**self._own_tasks(), **self._peer_tasks()}
        for name in self.peers.failures.keys() & tasks.keys():
            del tasks[name]
        before, small = _stamps(self.corpus), tasks["list, 10,000 sessions, again"]
        small.run()  # all later runs are warm
        small.results.clear()
        self.runs = {**run_rounds(tasks, ROUNDS[self.size]), **self.peers.failures}
        if self.size == _TOO_LARGE:
            self.runs["agentsview"] = _TOO_LONG
        if _stamps(self.corpus) != before:
            msg = "somebody has changed the corpus: delete build/bench and start again"
            raise SystemExit(msg)

    def _own_tasks(self) -> dict[str, Task]:
        build = [sys.executable, str(_HERE / "text_build.py"), str(self.corpus)]
        cost, find = ("cost", "report"), ("search", "zqneedle003x")
        everything = ("sessions", "list", "--limit", "all")
        return {
            "python -c pass": self._task("pass", [sys.executable, "-c", "pass"], "none", times=3),
            "cost report, first": self._amux("cost", *cost, cache="cost", empty="*"),
            "cost report, again": self._amux("cost", *cost, cache="cost", times=3),
            "cost report --json, again": self._amux(
                "tokens", *cost, "--by", "agent", "--json", cache="cost", times=3
            ),
            "list, first": self._amux("list", *everything, cache="list", empty="*"),
            "list, again": self._amux("list", *everything, cache="list", times=3),
            "all in a list, index off": self._amux(
                "list", *everything, cache="list", AMUX_INDEX="off"
            ),
            "list, index off": self._amux("some", "list", cache="list", AMUX_INDEX="off"),
            "amux alone, again": self._amux("overview", cache="list", times=3),
            "cost blocks, again": self._amux("blocks", "cost", "blocks", cache="list", times=3),
            "list, 10,000 sessions, again": self._small(),
            "list --json, 10,000 sessions, again": self._small("--json"),
            "search, first": self._amux("search", *find, cache="cost", empty="texts-*"),
            "search, again": self._amux("search", *find, cache="cost"),
            "text index, messages": self._task(
                "messages", [*build, self._index("messages"), "messages"], "messages", empty="*"
            ),
            "text index, with tool text": self._task(
                "tools", [*build, self._index("tools"), "tools"], "tools", empty="*"
            ),
        }

    def _peer_tasks(self) -> dict[str, Task]:
        commands = {
            "ccusage": self.peers.ccusage(),
            "tokscale": self.peers.tokscale(),
            "claude-agent-sdk": self.peers.list_sessions(),
        }
        tasks = {
            name: Task(command, peer_env(self.home(name)), self.output(name))
            for name, command in commands.items()
        }
        if self.size != _TOO_LARGE:
            home = self.home("agentsview")
            tasks["agentsview"] = Task(
                self.peers.agentsview("sync"),
                peer_env(home),
                self.output("agentsview"),
                prepare=lambda: shutil.rmtree(home / ".agentsview", ignore_errors=True),
            )
        return tasks

    def _small(self, *words: str) -> Task:
        home = str(PLACE / "small")
        return self._amux("small", "sessions", "list", *words, cache="small", times=5, HOME=home)

    def _amux(
        self, name: str, *words: str, cache: str, empty: str = "", times: int = 1, **env: str
    ) -> Task:
        command = [str(Path(sys.executable).with_name("amux")), *words]
        return self._task(f"amux-{name}", command, cache, empty=empty, times=times, **env)

    def _task(
        self,
        name: str,
        command: list[str],
        cache: str,
        *,
        empty: str = "",
        times: int = 1,
        **env: str,
    ) -> Task:
        folder = self.place / "cache" / cache
        own = {"HOME": str(self.corpus), "AMUX_CACHE_DIR": str(folder), **env}

        def prepare() -> None:
            folder.mkdir(parents=True, exist_ok=True)
            for path in folder.glob(empty) if empty else ():
                path.unlink()

        return Task(command, {**own_environment(), **own}, self.output(name), prepare, times)

    def _index(self, cache: str) -> str:
        return str(self.place / "cache" / cache / "texts.db")

    def searches(self) -> dict[str, Any]:
        """Return medians by query and program."""
        command = [sys.executable, str(_HERE / "search_rounds.py"), str(self.corpus)]
        command.append(str(self.place / "cache" / "cost"))
        output = self.output("searches")
        with self._server() as url:
            words = [*command, url] if url else command
            result = run_once(words, own_environment(), output)
        if isinstance(result, Failure):
            msg = f"searching: {result.reason}"
            raise SystemExit(msg)
        found: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
        return found

    @contextmanager
    def _server(self) -> Generator[str | None]:
        """Run the server of agentsview during the block and yield its address."""
        if isinstance(self.runs["agentsview"], Failure):
            yield None
            return
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = f"serve --no-browser --no-sync --no-update-check --port {port}".split()
        with self.output("server").open("wb") as out:
            process = subprocess.Popen(
                self.peers.agentsview(*words),
                env=peer_env(self.home("agentsview")),
                stdout=out,
                stderr=out,
            )
        url = f"http://127.0.0.1:{port}"
        try:
            yield url if _answers(url) else None
        finally:
            process.terminate()
            process.wait()

    def tokens(self) -> dict[str, Tokens | Failure]:
        """Return the counts of all programs."""
        usage = "usage daily --all --breakdown --json --no-sync --offline"
        if isinstance(self.runs["agentsview"], Figures):
            command = self.peers.agentsview(*usage.split())
            run_once(command, peer_env(self.home("agentsview")), self.output("agentsview"))
        readers = {
            "ccusage": known.daily_tokens,
            "tokscale": known.tokscale_tokens,
            "agentsview": known.daily_tokens,
        }
        own = known.amux_tokens(self.output("amux-tokens"))
        counted: dict[str, Tokens | Failure] = {"amux": own}
        for name, read in readers.items():
            result = self.runs[name]
            counted[name] = result if isinstance(result, Failure) else read(self.output(name))
        return counted

    def sizes(self) -> list[str]:
        """Return the sizes of the indexes and of their sources."""
        raw = sum(agent["bytes"] for agent in self.truth["agents"].values())
        rows = [
            [name, f"{size / 1e6:,.1f} MB", f"{100 * size / raw:.1f} %"]
            for name, pattern in (
                ("sessions and cost", "cost/index-*.db"),
                ("text, messages only", "messages/texts.db"),
                ("text, messages and tool text", "cost/texts-*.db"),
            )
            for size in [sum(p.stat().st_size for p in (self.place / "cache").glob(pattern))]
        ]
        archive = self.home("agentsview") / ".agentsview" / "sessions.db"
        if archive.is_file():
            size = archive.stat().st_size
            rows.append(["agentsview", f"{size / 1e6:,.1f} MB", f"{100 * size / raw:.1f} %"])
        return table(["index", "size", "of the files"], rows)

    def rows(self) -> list[Row]:
        """Return all comparisons of processes."""
        run, again = self.runs, 18 if self.size == "M" else None
        ccusage, tokscale, sdk = run["ccusage"], run["tokscale"], run["claude-agent-sdk"]
        first, repeated = run["cost report, first"], run["cost report, again"]
        small, spoken = run["list, 10,000 sessions, again"], run["text index, messages"]
        found, view = run["search, first"], run["agentsview"]
        return [
            compare("cost report, first", "cpu", first, "ccusage", ccusage),
            compare("cost report, first", "wall", first, "ccusage", ccusage),
            compare("cost report, again", "cpu", repeated, "ccusage", ccusage, wish=again),
            compare("cost report, again", "wall", repeated, "ccusage", ccusage),
            compare("cost report --json, again", "cpu", run["cost report --json, again"], "ccusage",
                    ccusage, wish=again),
            compare("cost report, first", "cpu", first, "tokscale", tokscale),
            compare("cost report, again", "cpu", repeated, "tokscale", tokscale),
            compare("text index of messages, engine alone", "cpu", spoken, "agentsview sync", view,
                    wish=10),
            compare("first search: text index with tool text", "cpu", found, "agentsview sync",
                    view),
            compare("list, index off", "cpu", run["list, index off"], "list_sessions", sdk, wish=5),
            compare("list --limit all, index off", "cpu", run["all in a list, index off"],
                    "list_sessions", sdk),
            compare("list --limit all, first", "cpu", run["list, first"], "list_sessions", sdk),
            compare("list --limit all, again", "cpu", run["list, again"], "list_sessions", sdk),
            compare("amux alone, again", "cpu", run["amux alone, again"], "list_sessions", sdk),
            compare("list, 10,000 sessions, again", "wall", small, "python -c pass",
                    run["python -c pass"], wish=1 / 8),
            compare("list --json, 10,000 sessions, again", "wall",
                    run["list --json, 10,000 sessions, again"], "python -c pass",
                    run["python -c pass"], wish=1 / 8),
        ]  # fmt: skip


def main() -> None:
    sizes = sys.argv[1:] or (["S", "M"] if os.environ.get("BENCH") == "full" else ["S"])
    if not set(sizes) <= SIZES.keys():
        sys.exit(f"usage: python benchmarks/bench_peers.py [{'|'.join(SIZES)}]...")
    compileall.compile_dir(ROOT / "src" / "amux", quiet=1)
    peers = Peers(PLACE / "peers")
    peers.install()
    done: dict[str, Runs] = {}
    for size in sizes:
        bench = Bench(size, peers)
        bench.prepare()
        bench.measure()
        done[size] = bench.runs
        lines = [*_section(bench), *(_growth(done) if size == "M" else ())]
        print("\n".join(lines), flush=True)
        if size != "XS":
            write_section(PAGE, size, lines)


def _section(bench: Bench) -> list[str]:
    searches = bench.searches()
    return [
        *conditions(bench.size, bench.truth),
        *speed_table(bench.rows()),
        *search_table(searches),
        _hidden(bench.truth),
        "",
        *token_table(bench.truth, bench.tokens()),
        *bench.sizes(),
        *memory_table(bench.runs),
    ]


def _hidden(truth: Truth) -> str:
    """Return the number of sessions that match a query, where it is known."""
    said = truth["needles"]
    rare = sum(said[query.search] for query in QUERIES["rare word"])
    ideographs = said[IDEOGRAPHS] * len(QUERIES["ideographs"])
    return (
        "Medians over eight queries of every kind, four of the last two. Found are the results of"
        f" all of them, 20 of each at most. Known are {rare} of rare words and {ideographs} of"
        f" ideographs. Wanted is a factor of {SEARCH_WISH:g} everywhere."
    )


def _growth(done: Mapping[str, Runs]) -> list[str]:
    """Return the ratio of the large corpus to the small one."""
    if "S" not in done:
        return []
    rows: list[list[str]] = []
    for name, large in done["M"].items():
        small = done["S"][name]
        if isinstance(small, Figures) and isinstance(large, Figures):
            factors = [f"{b / a:.1f}" for a, b in zip(small, large, strict=True)]
            rows.append([name, *factors])
    return table(["from S to M, times", "cpu", "wall", "peak memory"], rows)


def _stamps(folder: Path) -> list[tuple[str, int, int]]:
    """Return the state of every file, to detect whether a program wrote to it."""
    found = ((path, path.stat()) for path in folder.rglob("*.jsonl"))
    return sorted((str(path), stat.st_size, stat.st_mtime_ns) for path, stat in found)


def _answers(url: str) -> bool:
    for _ in range(100):
        try:
            with urlopen(f"{url}/api/v1/search?q=x", timeout=5):
                return True
        except (URLError, ConnectionError):
            time.sleep(0.1)
    return False


if __name__ == "__main__":
    main()
