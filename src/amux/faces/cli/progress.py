"""A sign of life on stderr for work that takes longer than a moment; on terminals only."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.status import Status

DELAY_S = 0.5


@contextmanager
def busy(text: str, *, is_watched: bool) -> Generator[None]:
    """Show a spinner while the body runs, if somebody watches and it takes half a second."""
    if not is_watched:
        yield
        return
    sign = _Sign(text)
    timer = Timer(DELAY_S, sign.show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        sign.clear()


class _Sign:
    """Shown by the timer's thread and cleared by the main one, in either order."""

    def __init__(self, text: str) -> None:
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
