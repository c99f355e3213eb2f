"""The progress line of long work, on a simulated terminal and clock."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amux.faces.cli.progress import Report, working

ERASE = "\r\x1b[K"
MB = 1 << 20


class Terminal(io.StringIO):
    """Remembers everything; `screen` is what a person would see now."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override] # a plain attribute in typeshed
        return self._encoding

    def lines(self) -> list[str]:
        return self.getvalue().split(ERASE)[1:]

    def screen(self) -> str:
        return self.lines()[-1] if self.getvalue() else ""


class Work:
    """Reports at set seconds."""

    def __init__(self, *, columns: int = 100, encoding: str = "utf-8") -> None:
        self.now = 50.0
        self.columns = columns
        self.terminal = Terminal(encoding)
        self._context = working(
            "reading",
            shows_progress=True,
            stream=self.terminal,
            columns=lambda: self.columns,
            clock=lambda: self.now,
        )
        self._report: Report = self._context.__enter__()

    def at(self, second: float, done: int, total: int, what: str = "bytes") -> str:
        self.tell(second, done, total, what)
        return self.terminal.screen()

    def tell(self, second: float, done: int, total: int, what: str = "bytes") -> None:
        self.now = 50.0 + second
        self._report(done, total, what)

    def end(self, error: BaseException | None = None) -> bool:
        """Leave; whether the error, if any, was kept from the caller."""
        kind = None if error is None else type(error)
        return bool(self._context.__exit__(kind, error, None))


def test_work_that_ends_soon_shows_no_activity_line() -> None:
    work = Work()
    for tenth in range(5):
        assert work.at(tenth / 10, tenth, 5) == ""
    work.end()
    assert work.terminal.getvalue() == ""


def test_bytes_have_a_bar_a_rate_and_the_time_that_is_left() -> None:
    work = Work()
    work.at(0, 0, 100 * MB)
    assert work.at(0.5, 10 * MB, 100 * MB) == f"reading  {'█' * 2}{'░' * 18}  10%  10 MB of 100 MB"
    assert work.at(2, 40 * MB, 100 * MB) == (
        f"reading  {'█' * 8}{'░' * 12}  40%  40 MB of 100 MB  3 s left  20 MB/s"
    )


def test_units_other_than_bytes_are_counted() -> None:
    work = Work()
    work.at(0, 0, 5000, "files")
    assert work.at(4, 1000, 5000, "files").endswith("1,000 of 5,000 files  16 s left  250/s")


@pytest.mark.parametrize(
    ("left", "said"), [(0.2, "1 s"), (59, "59 s"), (61, "1 min 1 s"), (7260, "2 h 1 min")]
)
def test_the_remaining_time_is_shown_in_suitable_units(left: float, said: str) -> None:
    work = Work()
    work.at(0, 0, 1, "files")
    assert f"  {said} left" in work.at(10, 1000, 1000 + round(left * 100), "files")


def test_the_rate_ignores_work_done_before_the_start() -> None:
    work = Work()
    work.at(0, 900, 1000, "files")
    assert work.at(2, 920, 1000, "files").endswith("8 s left  10/s")


def test_each_kind_of_work_has_its_own_rate() -> None:
    work = Work()
    work.at(0, 0, 10, "files")
    work.at(5, 10, 10, "files")
    assert work.at(5.2, 0, 50 * MB).endswith("0 B of 50 MB")
    assert work.at(7.2, 10 * MB, 50 * MB).endswith("8 s left  5.0 MB/s")


def test_progress_is_drawn_at_most_ten_times_a_second() -> None:
    work = Work()
    for hundredth in range(300):
        work.at(hundredth / 100, hundredth, 300)
    assert 24 <= len(work.terminal.lines()) <= 26


@pytest.mark.parametrize("error", [None, ValueError("x"), KeyboardInterrupt()])
def test_the_progress_line_is_erased_however_the_work_ends(error: BaseException | None) -> None:
    work = Work()
    work.at(1, 1, 2)
    assert not work.end(error)
    assert work.terminal.getvalue().endswith(ERASE)
    assert work.terminal.screen() == ""


def test_without_a_total_there_is_no_bar() -> None:
    work = Work()
    work.at(0, 0, 0, "files")
    assert work.at(2, 1200, 0, "files") == "reading  1,200 files  600/s"


def test_progress_above_the_total_is_shown_as_100_percent() -> None:
    assert "100%" in Work().at(1, 12, 10)


def test_a_terminal_without_block_characters_gets_ascii_bars() -> None:
    assert "##########.........." in Work(encoding="ascii").at(1, 5, 10)


@given(
    columns=st.integers(0, 120),
    done=st.integers(0, 1 << 50),
    total=st.integers(0, 1 << 50),
    what=st.sampled_from(["bytes", "files"]),
)
def test_the_progress_line_always_fits_the_terminal(
    columns: int, done: int, total: int, what: str
) -> None:
    work = Work(columns=columns)
    work.at(0, 0, total, what)
    assert len(work.at(3, done, total, what)) <= max(columns - 1, 0)


def test_the_progress_line_adapts_to_a_narrower_terminal() -> None:
    work = Work()
    work.at(0, 0, 10)
    assert "left" in work.at(2, 5, 10)
    work.columns = 40
    assert work.at(3, 5, 10) == f"reading  {'█' * 10}{'░' * 10}  50%"


def test_a_vanished_terminal_does_not_stop_the_work() -> None:
    work = Work()
    work.at(1, 1, 10)
    work.terminal.close()
    work.tell(2, 2, 10)
    work.end()


def test_progress_is_not_reported_without_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with working("reading", shows_progress=False) as report:
        report(1, 2, "files")
    assert capfd.readouterr() == ("", "")


SCRIPT = """
import argparse, sys
from amux.faces.cli import progress as progress_bar
from amux.faces.cli.context import Context
from amux.faces.cli.output import Output
progress_bar.DELAY_S = 0
context = Context(argparse.Namespace(), Output(is_quiet={quiet}))
with context.working("reading") as progress:
    progress(1, 2, "files")
assert not {{"rich", "threading", "msgspec"}} & set(sys.modules)
"""


@pytest.mark.parametrize(
    ("term", "quiet", "is_shown"),
    [("xterm", False, True), ("xterm", True, False), ("dumb", False, False)],
)
def test_a_terminal_shows_progress_unless_it_is_dumb_or_quiet_is_set(
    term: str, quiet: bool, is_shown: bool
) -> None:
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(quiet=quiet)],
        env={**os.environ, "TERM": term, "NO_COLOR": "1"},
        stderr=theirs,
        check=False,
    )
    os.write(theirs, b"END")
    os.close(theirs)
    received = b""
    while not received.endswith(b"END"):
        received += os.read(ours, 65536)
    os.close(ours)
    shown = received.decode()
    assert done.returncode == 0, shown
    assert ("1 of 2 files" in shown) == is_shown
    assert shown == "END" or shown.endswith(f"{ERASE}END")
    assert not re.search(r"\x1b\[[0-9;]*m", shown)
