"""Writes measurements as tables to docs/performance.md, each size between its own markers."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from corpus import Truth
from measure import Failure, Result
from peers import Tokens

_COUNTED: Final = ("input", "output", "cache_read", "cache_write")
_BUSY: Final = 1.5
SEARCH_WISH: Final = 3.0
"""The target: how many times faster than the server every search should be."""


class Row(NamedTuple):
    """A comparison of one figure. `wish` is the target ratio of the peer to amux."""

    job: str
    unit: str
    ours: float
    peer: str
    theirs: float | Failure
    wish: float | None = None

    def cells(self) -> list[str]:
        """Return the row of the table."""
        own = _amount(self.ours, self.unit)
        if isinstance(self.theirs, Failure):
            return [self.job, own, f"**{self.peer}: {self.theirs.reason}**", "", self._wish(), ""]
        factor = self.theirs / self.ours
        verdict = "" if self.wish is None else "met" if factor >= self.wish else "**missed**"
        other = f"{self.peer}: {_amount(self.theirs, self.unit)}"
        return [self.job, own, other, _factor(factor), self._wish(), verdict]

    def _wish(self) -> str:
        return "" if self.wish is None else f"{self.wish:.2g}"


def compare(
    job: str, figure: str, ours: Result, peer: str, theirs: Result, *, wish: float | None = None
) -> Row:
    """Return a row for one figure of two runs."""
    if isinstance(ours, Failure):
        msg = f"{job}: amux {ours.reason}"
        raise SystemExit(msg)
    unit = "MB" if figure == "peak" else "s"
    other = theirs if isinstance(theirs, Failure) else float(getattr(theirs, figure))
    return Row(f"{job}, {figure}", unit, float(getattr(ours, figure)), peer, other, wish)


def speed_table(rows: Iterable[Row]) -> list[str]:
    """Return a table of amux and its peers; the factor is the ratio of the peer to amux."""
    head = ["job", "amux", "peer", "factor", "wanted", ""]
    return table(head, [row.cells() for row in rows])


def search_table(searches: Mapping[str, Mapping[str, tuple[float, int]]]) -> list[str]:
    """Return a table of the medians of amux as a library, of its index alone, and of a server."""
    shown = {
        "messages": "amux, messages",
        "engine": "its text index alone",
        "search": "amux, with tool text",
        "with a look": "and a look at the files",
        "server": "agentsview server",
    }
    rows: list[list[str]] = []
    for name, parties in searches.items():
        cells = [_search_cell(parties.get(party)) for party in shown]
        if "server" not in parties:
            rows.append([name, *cells, "", ""])
            continue
        server = parties["server"][0]
        factors = [server / parties[party][0] for party in ("messages", "search")]
        verdict = "met" if factors[0] >= SEARCH_WISH else "**missed**"
        rows.append([name, *cells, ", ".join(map(_factor, factors)), verdict])
    return table(["search", *shown.values(), "factors of both", ""], rows)


def _search_cell(answer: tuple[float, int] | None) -> str:
    return "not run" if answer is None else f"{answer[0]:,.2f} ms, {answer[1]:,} found"


def memory_table(runs: Mapping[str, Result]) -> list[str]:
    """Return a table of the peak memory of every command."""
    rows: list[list[str]] = []
    for name, result in runs.items():
        if isinstance(result, Failure):
            rows.append([name, f"**{result.reason}**"])
        else:
            rows.append([name, _amount(result.peak, "MB")])
    return table(["program", "peak memory"], rows)


def token_table(truth: Truth, counted: Mapping[str, Tokens | Failure]) -> list[str]:
    """Return a table that compares the sums of all programs with those of the corpus."""
    head = ["program", *(f"{agent} {_words(name)}" for agent, name in _columns(truth))]
    true = ["truth", *(f"{_true(truth, *column):,}" for column in _columns(truth))]
    rows = [true]
    for program, tokens in counted.items():
        if isinstance(tokens, Failure):
            rows.append([program, f"**{tokens.reason}**", *[""] * (len(true) - 2)])
            continue
        off = [_off(tokens[a][n], _true(truth, a, n)) for a, n in _columns(truth)]
        rows.append([program, *off])
    return table(head, rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines] + [""]


def conditions(size: str, truth: Truth) -> list[str]:
    """Return the date and the machine of the measurement."""
    agents = truth["agents"].values()
    megabytes = sum(agent["bytes"] for agent in agents) / 1e6
    sessions, files = (sum(agent[name] for agent in agents) for name in ("sessions", "files"))
    today = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    cores, busy = os.cpu_count() or 1, os.getloadavg()[0]
    what = f"Corpus {size}: {megabytes:,.0f} MB, {sessions:,} sessions in {files:,} files."
    software = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    lines = [f"{what} {today} UTC, {software}, {cores} cores, load {busy:.1f} at the end.", ""]
    if busy > cores * _BUSY:
        lines += ["**The machine was busy with other work: times are disturbed.**", ""]
    return lines


def write_section(page: Path, name: str, lines: Sequence[str]) -> None:
    """Replace the lines between the markers of a section."""
    begin, end = f"<!-- {name}: begin, written by make bench -->", f"<!-- {name}: end -->"
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        msg = f"{page} has no section {name}"
        raise SystemExit(msg)
    body = "\n".join(lines).strip()
    page.write_text(f"{before}{begin}\n\n{body}\n\n{end}{after}", encoding="utf-8")


def _columns(truth: Truth) -> list[tuple[str, str]]:
    return [
        (agent, name)
        for agent, known in truth["agents"].items()
        for name in _COUNTED
        if known["tokens"][name]
    ]


def _true(truth: Truth, agent: str, name: str) -> int:
    return int(truth["agents"][agent]["tokens"][name])


def _off(counted: int, true: int) -> str:
    return "exact" if counted == true else f"{100 * (counted - true) / true:+.2f} %"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _factor(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:,.0f}"


def _amount(value: float, unit: str) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f} {unit}"
