"""A line on the terminal that shows what a running agent does: time, tokens, cost, current tool.

The line is on stderr and drawn by a thread, since an agent may be silent for minutes. It makes room
for text on stdout and is erased at the end. Without a terminal nothing is drawn.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Final, Self, TextIO

from amux.faces.cli.safety import safe_text

_STEP_S: Final = 0.5
_ERASE: Final = "\r\x1b[K"
_MINUTE: Final = 60


class LiveLine:
    """Draws the line while its context is open."""

    def __init__(
        self,
        agent: str,
        *,
        is_shown: bool,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._agent, self._clock = agent, clock
        self._stream = sys.stderr if stream is None else stream
        self._begun = clock()
        self._lock, self._ended = Lock(), Event()
        self._thread = Thread(target=self._draw_on, daemon=True) if is_shown else None
        self._is_drawn = False
        self._is_line_open = False  # whether text on the terminal has no line end yet
        self.tokens: int | None = None
        self.cost_usd: float | None = None
        self.tool: str | None = None

    def __enter__(self) -> Self:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._erase()

    def write(self, text: str) -> None:
        """Write text to stdout; the line gives way to it."""
        with self._lock:
            self._erase()
            sys.stdout.write(text)
            sys.stdout.flush()
            if text and sys.stdout.isatty():
                self._is_line_open = not text.endswith("\n")

    def text(self) -> str:
        """Return the line, cut to the width of the terminal."""
        seconds = int(self._clock() - self._begun)
        parts = [self._agent, f"{seconds // _MINUTE}:{seconds % _MINUTE:02}"]
        if self.tokens is not None:
            parts.append(f"{self.tokens:,} tokens")
        if self.cost_usd is not None:
            parts.append(f"${self.cost_usd:.4f}")
        if self.tool is not None:
            parts.append(safe_text(self.tool))
        return "  ".join(parts)[: self._width() - 1]

    def _draw_on(self) -> None:
        while not self._ended.wait(_STEP_S):
            with self._lock:
                if not self._is_line_open:
                    self._put(_ERASE + self.text())
                    self._is_drawn = True

    def _erase(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            self._put(_ERASE)

    def _put(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the terminal is gone, but the agent goes on
            self._stream.write(text)
            self._stream.flush()

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80
