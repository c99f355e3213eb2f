"""Runs the command on a pseudo-terminal, as people do."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import unicodedata

from cli_process import Cli

COLOR = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(
    cli: Cli, *words: str, columns: int = 100, rows: int = 40, is_paged: bool = False
) -> str:
    """Everything the command wrote to a terminal of that size; no pager unless it is wanted."""
    own = (
        {"TERM": "xterm-256color"} if is_paged else {"TERM": "xterm-256color", "AMUX_PAGER": "cat"}
    )
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(
        cli.command(*words),
        env={**own, **cli.env},
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    chunks: list[bytes] = []
    while chunk := read(ours):
        chunks.append(chunk)
    os.close(ours)
    assert process.wait() == 0
    return b"".join(chunks).decode().replace("\r\n", "\n")


def read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # how Linux says that the other side is gone
        return b""


def width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


class TypingUser:
    """A user at a terminal: reads what is on the screen, and types."""

    def __init__(
        self, command: list[str], env: dict[str, str], *, columns: int = 80, rows: int = 24
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._process = subprocess.Popen(
            command,
            env={"TERM": "xterm-256color", "AMUX_PAGER": "cat", **env},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.seen = ""
        self._expected = 0  # the end of the last text that was expected

    def expect(self, text: str) -> None:
        """Read until the screen has shown this text, after the one that was expected before."""
        while (found := self.seen.find(text, self._expected)) < 0:
            ready, _, _ = select.select([self._ours], [], [], 20)
            chunk = read(self._ours) if ready else b""
            assert chunk, f"{text!r} never came: {self.seen[-2000:]!r}"
            self.seen += chunk.decode("utf-8", "replace")
        self._expected = found + len(text)

    def resize(self, *, columns: int, rows: int) -> None:
        """Change the size of the window, which the foreground process is told."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._process.send_signal(signal.SIGWINCH)  # the terminal is not a controlling one

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def end(self) -> int:
        """Read to the end; the exit code."""
        while select.select([self._ours], [], [], 20)[0] and (chunk := read(self._ours)):
            self.seen += chunk.decode("utf-8", "replace")
        os.close(self._ours)
        return self._process.wait(timeout=30)
