"""Shows the progress of long work on stderr, on terminals only: a spinner or a progress bar.

Nothing is drawn in the first half second. The bar is one line with share, amount, remaining time
and rate. It needs no thread: the work itself calls back, and the line is drawn at most ten times a
second. It fits the current width of the terminal, has no colour, and is erased when the work ends.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, TextIO

from amux.faces.cli.figures import size

if TYPE_CHECKING:
    from rich.status import Status

Report = Callable[[int, int, str], None]
"""Called with the amount done, the total (0 if unknown) and the unit, such as bytes or files."""

DELAY_S: Final = 0.5
STEP_S: Final = 0.1
_ESTIMATE_AFTER_S: Final = 1.0
_BAR: Final = 20
_MINUTE: Final = 60
_ERASE: Final = "\r\x1b[K"


@contextmanager
def busy(text: str, *, shows_progress: bool) -> Generator[None]:
    """Show a spinner if `shows_progress` and the body takes more than half a second."""
    if not shows_progress:
        yield
        return
    from threading import Timer

    spinner = _Spinner(text)
    timer = Timer(DELAY_S, spinner.show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        spinner.clear()


class _Spinner:
    """A spinner that the timer's thread shows and the main thread clears, in either order."""

    def __init__(self, text: str) -> None:
        from threading import Lock

        self._text = text
        self._lock = Lock()
        self._is_over = False
        self._status: Status | None = None

    def show(self) -> None:
        from rich.console import Console

        with self._lock:
            if not self._is_over:
                self._status = Console(stderr=True).status(self._text)
                self._status.start()

    def clear(self) -> None:
        with self._lock:
            self._is_over = True
            if self._status is not None:
                self._status.stop()


@contextmanager
def working(
    text: str,
    *,
    shows_progress: bool,
    stream: TextIO | None = None,
    columns: Callable[[], int] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Generator[Report]:
    """Yield a function that reports progress; it draws a bar if `shows_progress`."""
    if not shows_progress:
        yield _ignore
        return
    terminal = sys.stderr if stream is None else stream
    bar = _Bar(text, terminal, columns or _width_of(terminal), clock)
    try:
        yield bar.report
    finally:
        bar.clear()


def _ignore(done: int, total: int, what: str, /) -> None:
    """Accept a report and show nothing."""


class _Bar:
    """A progress bar on one line, which is drawn again with each report."""

    def __init__(
        self, text: str, stream: TextIO, columns: Callable[[], int], clock: Callable[[], float]
    ) -> None:
        self._text, self._stream = text, stream
        self._columns, self._clock = columns, clock
        self._next_at = clock() + DELAY_S
        self._is_shown = False
        self._pace: _Pace | None = None
        self._full, self._empty = _characters(stream)

    def report(self, done: int, total: int, what: str, /) -> None:
        now = self._clock()
        if self._pace is None or self._pace.what != what:
            self._pace = _Pace(what, done, now)
        if now >= self._next_at:
            self._next_at = now + STEP_S
            self._write(_ERASE + self._line(self._pace, done, total, now))
            self._is_shown = True

    def clear(self) -> None:
        if self._is_shown:
            self._is_shown = False
            self._write(_ERASE)

    def _line(self, pace: _Pace, done: int, total: int, now: float) -> str:
        """Return as many parts as fit; the last, least informative ones are dropped first."""
        room = self._columns() - 1  # some terminals wrap a full line
        parts = [self._text, *pace.parts(done, total, now)]
        if total > 0:
            parts.insert(1, self._bar_of(done / total))
        while len(parts) > 1 and len("  ".join(parts)) > room:
            parts.pop()
        return "  ".join(parts)[: max(room, 0)]

    def _bar_of(self, share: float) -> str:
        full = round(_BAR * min(max(share, 0.0), 1.0))
        return f"{self._full * full}{self._empty * (_BAR - full)} {min(share, 1.0):4.0%}"

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the terminal is gone, but the work continues
            self._stream.write(text)
            self._stream.flush()


class _Pace:
    """The rate of one unit since its first report."""

    def __init__(self, what: str, done: int, now: float) -> None:
        self.what = what
        self._begun_with, self._begun_at = done, now

    def parts(self, done: int, total: int, now: float) -> Iterator[str]:
        """Yield the amount, the remaining time and the rate, the most informative part first."""
        yield self._amount(done, total)
        seconds = now - self._begun_at
        rate = (done - self._begun_with) / seconds if seconds >= _ESTIMATE_AFTER_S else 0.0
        if rate > 0:
            if total > done:
                yield f"{_duration((total - done) / rate)} left"
            yield f"{size(round(rate))}/s" if self.what == "bytes" else f"{rate:,.0f}/s"

    def _amount(self, done: int, total: int) -> str:
        if self.what == "bytes":
            return f"{size(done)} of {size(total)}" if total > 0 else size(done)
        return f"{done:,} of {total:,} {self.what}" if total > 0 else f"{done:,} {self.what}"


def _duration(seconds: float) -> str:
    whole = max(1, round(seconds))
    if whole < _MINUTE:
        return f"{whole} s"
    minutes, rest = divmod(whole, _MINUTE)
    if minutes < _MINUTE:
        return f"{minutes} min {rest} s"
    return f"{minutes // _MINUTE} h {minutes % _MINUTE} min"


def _characters(stream: TextIO) -> tuple[str, str]:
    """Return block characters, or ASCII characters if the stream's encoding lacks them."""
    blocks = ("█", "░")
    try:
        "".join(blocks).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return "#", "."
    return blocks


def _width_of(stream: TextIO) -> Callable[[], int]:
    def width() -> int:
        try:
            return os.get_terminal_size(stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    return width
