"""Runs the command on a pseudo-terminal, as people do."""

from __future__ import annotations

import fcntl
import os
import pty
import re
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
