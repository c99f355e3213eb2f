"""Paints the lines of a session: the colours of the styles, and symbols that any terminal has."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from amux.faces.cli.output import Output
from amux.faces.cli.safety import safe_text

if TYPE_CHECKING:
    from amux.render.terminal_text import Line, Style

_CODES: dict[Style, str] = {
    "plain": "",
    "title": "1",
    "label": "2",
    "faint": "2",
    "folded": "2",
    "user": "1;36",
    "agent": "1;32",
    "thought": "2;3",
    "heading": "1",
    "tool": "1",
    "done": "32",
    "failed": "31",
    "warning": "33",
    "added": "32",
    "removed": "31",
    "hunk": "36",
}
_PLAIN_SYMBOLS = str.maketrans({"…": "...", "✓": "+", "✗": "x", "·": "-", "─": "-"})


def terminal_size() -> os.terminal_size:
    """Return the columns and rows of the terminal, or what COLUMNS and LINES say."""
    from shutil import get_terminal_size

    return get_terminal_size()


def painter_for(output: Output) -> Painter:
    """Return a painter that uses colour if the output does and the terminal can."""
    is_dumb = os.environ.get("TERM") == "dumb"  # noqa: TID251 - a face asks the process
    return Painter(has_color=output.has_color and not is_dumb)


class Painter:
    """Turns lines into text; without colour, the words alone tell the styles apart."""

    def __init__(self, *, has_color: bool) -> None:
        self._has_color = has_color
        self._is_plain = not _has_symbols(sys.stdout.encoding)

    def paint(self, line: Line) -> str:
        """Return a line as text with a line feed; its colours end with it."""
        return "".join(self._segment(text, style) for text, style in line) + "\n"

    def _segment(self, text: str, style: Style) -> str:
        if not text.isprintable():  # the layout leaves none: this makes it certain
            text = safe_text(text)
        if self._is_plain:
            text = text.translate(_PLAIN_SYMBOLS)
        code = _CODES[style] if self._has_color else ""
        return f"\x1b[{code}m{text}\x1b[0m" if code and text else text


def _has_symbols(encoding: str | None) -> bool:
    try:
        "…✓─".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
