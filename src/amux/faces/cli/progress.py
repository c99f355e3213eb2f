"""How far long work has come, on one line of a terminal: bar, share, rate, time left.

The work itself calls back; there is no thread. Nothing is drawn in the first half second and at
most ten times a second after it. The line fits the terminal as wide as it is now, holds no colour,
and is gone when the work is over, however it ends. A terminal that cannot move the cursor gets
nothing.
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
"""Called with what is done, what there is in all (0: nobody knows) and of what: bytes, files."""

DELAY_S: Final = 0.5
STEP_S: Final = 0.1
_ESTIMATE_AFTER_S: Final = 1.0
_BAR: Final = 20
_MINUTE: Final = 60
_ERASE: Final = "\r\x1b[K"


@contextmanager
def busy(text: str, *, shows_progress: bool) -> Generator[None]:
    """Show a spinner while the body runs, if somebody watches and it takes half a second."""
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
    """Shown by the timer's thread and cleared by the main one, in either order."""

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
    """Give the body a function to report to; show what it reports if somebody watches."""
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
    """Report to nobody."""


class _Bar:
    """One line that is drawn over and over again."""

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
            self._draw(self._line(self._pace, done, total, now))

    def clear(self) -> None:
        if self._is_shown:
            self._is_shown = False
            self._write(_ERASE)

    def _line(self, pace: _Pace, done: int, total: int, now: float) -> str:
        """As many parts as fit; those that say least go first."""
        room = self._columns() - 1  # a full line would wrap on some terminals
        parts = [self._text, *pace.parts(done, total, now)]
        if total > 0:
            parts.insert(1, self._bar_of(done / total))
        while len(parts) > 1 and len("  ".join(parts)) > room:
            parts.pop()
        return "  ".join(parts)[: max(room, 0)]

    def _bar_of(self, share: float) -> str:
        full = round(_BAR * min(max(share, 0.0), 1.0))
        return f"{self._full * full}{self._empty * (_BAR - full)} {min(share, 1.0):4.0%}"

    def _draw(self, line: str) -> None:
        self._write(f"{_ERASE}{line}")
        self._is_shown = True

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the terminal is gone; the work is not
            self._stream.write(text)
            self._stream.flush()


class _Pace:
    """How fast one kind of thing gets done, since it was first reported."""

    def __init__(self, what: str, done: int, now: float) -> None:
        self.what = what
        self._begun_with, self._begun_at = done, now

    def parts(self, done: int, total: int, now: float) -> Iterator[str]:
        """Amount, time left, rate: the less telling, the later."""
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
    """Blocks where the terminal's encoding has them."""
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
