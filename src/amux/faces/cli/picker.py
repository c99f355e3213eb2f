"""Lets the user pick a session: arrow keys, typing to filter, a preview; Enter picks, Esc leaves.

The picker draws on stderr and reads single keys from a terminal whose line editing it switches off
and restores. Titles come from sessions and are made safe first. Without a terminal the sessions
are listed instead, and nothing is picked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final
from unicodedata import east_asian_width

from amux.errors import AmuxError, ErrorCode
from amux.faces.cli.figures import ago, session_money
from amux.faces.cli.safety import safe_text

if TYPE_CHECKING:
    from amux.faces.cli.context import Context
    from amux.model.ids import NativeRef
    from amux.model.session import SessionSummary

SHOWN: Final = 200
PREVIEW: Final = 4
_OVERHEAD: Final = 3 + PREVIEW  # the filter, the help, a rule and the preview
_CLEAR_DOWN: Final = "\x1b[J"
_CHOSEN, _DIM, _PLAIN = "\x1b[7m", "\x1b[2m", "\x1b[0m"
_HELP: Final = "up/down move  type to filter  Enter resumes  Esc leaves"

_SEQUENCES: Final = {
    "\x1b[A": "up",
    "\x1bOA": "up",
    "\x1b[B": "down",
    "\x1bOB": "down",
    "\x1b[5~": "page-up",
    "\x1b[6~": "page-down",
    "\x10": "up",  # Ctrl-P
    "\x0e": "down",  # Ctrl-N
    "\r": "enter",
    "\n": "enter",
    "\x1b": "escape",
    "\x03": "escape",  # Ctrl-C
    "\x04": "escape",  # Ctrl-D
    "\x7f": "delete",
    "\x08": "delete",
}


class PickerRow:
    """One choice: the line in the list, the lines of its preview, and the text that is filtered."""

    __slots__ = ("line", "preview", "text")

    def __init__(self, line: str, preview: Sequence[str]) -> None:
        self.line = safe_text(line)
        self.preview = tuple(safe_text(each) for each in preview)
        self.text = " ".join((self.line, *self.preview)).casefold()


class Picker:
    """The state of the list: the filter, the matching rows and the chosen one."""

    def __init__(self, rows: Sequence[PickerRow], *, columns: int, lines: int) -> None:
        self._rows = rows
        self._filter = ""
        self._matching = list(range(len(rows)))
        self._at = self._top = 0
        self.resize(columns, lines)

    @property
    def chosen(self) -> int | None:
        """The number of the chosen row; None if no row matches."""
        return self._matching[self._at] if self._matching else None

    def resize(self, columns: int, lines: int) -> None:
        """Draw for a terminal of this size from now on."""
        self._columns, self._height = max(columns, 10), max(lines - _OVERHEAD, 1)
        self._scroll()

    def press(self, key: str) -> None:
        """Move, or change the filter."""
        steps = {"up": -1, "down": 1, "page-up": -self._height, "page-down": self._height}
        if key in steps:
            self._at = min(max(self._at + steps[key], 0), max(len(self._matching) - 1, 0))
        elif key == "delete":
            self._narrow(self._filter[:-1])
        elif len(key) == 1 and key.isprintable():
            self._narrow(self._filter + key)
        self._scroll()

    def draw(self) -> list[str]:
        """Return the lines of the screen, none wider than the terminal."""
        lines = [f"> {self._filter}"]
        end = self._top + self._height
        for number, row in enumerate(self._matching[self._top : end], start=self._top):
            text = clipped(self._rows[row].line, self._columns - 1)
            lines.append(f"{_CHOSEN}{text}{_PLAIN}" if number == self._at else text)
        if not self._matching:
            lines.append("no session matches")
        lines.append("-" * (self._columns - 1))
        preview = () if self.chosen is None else self._rows[self.chosen].preview
        lines += [clipped(each, self._columns - 1) for each in preview[:PREVIEW]]
        lines.append(f"{_DIM}{clipped(_HELP, self._columns - 1)}{_PLAIN}")
        return lines

    def _scroll(self) -> None:
        """Move the visible part of the list so that it contains the chosen row."""
        self._top = min(max(self._top, self._at - self._height + 1), self._at)

    def _narrow(self, text: str) -> None:
        self._filter = text
        words = text.casefold().split()
        self._matching = [
            number
            for number, row in enumerate(self._rows)
            if all(word in row.text for word in words)
        ]
        self._at = self._top = 0


def pick_session(context: Context) -> NativeRef | None:
    """Return the session that the user picks; None if there is no terminal or nothing is picked.

    Raises:
        AmuxError: The user left without picking one (ABORTED).
    """
    from amux.model.ids import NativeRef

    sessions = _sessions(context)
    if not sessions or not _has_terminal():
        _list(context, sessions)
        return None
    rows = [_row(each, context) for each in sessions]
    chosen = pick(rows)
    if chosen is None:
        raise AmuxError("nothing was chosen", code=ErrorCode.ABORTED)
    session = sessions[chosen]
    return NativeRef(agent=session.agent, native_session_id=session.session_id)


def pick(rows: Sequence[PickerRow]) -> int | None:
    """Show rows on the terminal and return the number of the picked one; None for Esc."""
    picker = Picker(rows, columns=80, lines=24)
    with _single_keys() as read_key:
        drawn = 0
        try:
            while True:
                picker.resize(*os.get_terminal_size(sys.stderr.fileno()))
                lines = picker.draw()
                up = f"\x1b[{drawn}A" if drawn else ""
                _put(f"\r{up}{_CLEAR_DOWN}" + "\r\n".join(lines))
                drawn = len(lines) - 1
                key = read_key()
                if key == "escape":
                    return None
                if key == "enter" and picker.chosen is not None:
                    return picker.chosen
                if key == "resized":
                    drawn = 0  # the terminal has wrapped the lines anew: nothing can be erased
                    _put("\x1b[H")
                picker.press(key)
        finally:
            up = f"\x1b[{drawn}A" if drawn else ""
            _put(f"\r{up}{_CLEAR_DOWN}")


def clipped(text: str, width: int) -> str:
    """Return the beginning of a text that fits into so many columns."""
    used = 0
    for number, char in enumerate(text):
        used += 2 if east_asian_width(char) in "WF" else 1
        if used > width:
            return text[:number]
    return text


def _sessions(context: Context) -> list[SessionSummary]:
    """Return the last sessions that their agents can resume."""
    from amux.model.options import SessionListOptions

    able = [info.name for info in context.client.adapters.list() if info.capabilities.can_resume]
    agent = context.args.agent
    names = able if agent is None else [agent]
    options = SessionListOptions(limit=SHOWN, sort="updated")
    with context.reading("reading sessions"):
        report = context.client.list_report(names, options)
    return [each for each in report.sessions if each.agent in names and each.agent != "amux"]


def _list(context: Context, sessions: Sequence[SessionSummary]) -> None:
    from amux.faces.cli.session_rows import write_sessions

    write_sessions(context.output, sessions, now=context.now, by_update=True)
    if not sessions:
        context.output.note("there is no session to resume")
    else:
        context.output.hint("there is no terminal to choose on: name one of these sessions")


def _row(session: SessionSummary, context: Context) -> PickerRow:
    title = session.title or "(no title)"
    when = ago(session.updated_at, now=context.now)
    line = f"{session.agent:<9} {when:>8}  {title}"
    preview = (
        session.unified_id,
        f"{session.cwd or '?'}",
        f"{session.model or '?'}, {session.turn_count} turns, {session_money(session)}",
    )
    return PickerRow(line, preview)


@contextmanager
def _single_keys() -> Generator[Callable[[], str]]:
    """Switch line editing and echo off, and yield a function that waits for a key."""
    import signal
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    resized, resize = os.pipe()
    os.set_blocking(resize, False)

    def note_resize(*_: object) -> None:
        with suppress(BlockingIOError):  # it is noted already
            os.write(resize, b"!")

    handler = signal.signal(signal.SIGWINCH, note_resize)
    try:
        tty.setraw(descriptor, termios.TCSADRAIN)
        yield lambda: _read_key(descriptor, resized)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, handler)
        os.close(resized)
        os.close(resize)


def _read_key(descriptor: int, resized: int) -> str:
    """Return the next key, or "resized"; the end of the input is Esc."""
    import select

    if resized in select.select([descriptor, resized], [], [])[0]:
        os.read(resized, 64)
        return "resized"
    data = os.read(descriptor, 1)
    if not data:
        return "escape"
    if data == b"\x1b":
        data += _rest_of_sequence(descriptor)
    else:
        while data[0] >= 0xC0 and len(data) < _utf8_length(data[0]):  # noqa: PLR2004 - UTF-8
            data += os.read(descriptor, 1) or b"?"
    text = data.decode("utf-8", "replace")
    return _SEQUENCES.get(text, text)


def _rest_of_sequence(descriptor: int) -> bytes:
    """Return the bytes of a key that follow Esc at once; Esc alone is followed by none."""
    import select

    rest = b""
    while select.select([descriptor], [], [], 0.05)[0] and len(rest) < 8:  # noqa: PLR2004
        rest += os.read(descriptor, 1)
        if rest[-1:] == b"~" or (rest[-1:].isalpha() and rest != b"O"):
            break
    return rest


def _utf8_length(first: int) -> int:
    return 2 if first < 0xE0 else 3 if first < 0xF0 else 4  # noqa: PLR2004 - UTF-8


def _put(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def _has_terminal() -> bool:
    """Return whether there is a terminal that can move its cursor."""
    is_dumb = os.environ.get("TERM") == "dumb"  # noqa: TID251 - a face asks the process
    is_one = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    return is_one and not is_dumb
