from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from amux.faces.cli.progress import busy

WAIT_FOR_THE_SIGN = """
import threading
from amux.faces.cli import progress
progress.DELAY_S = {delay}
with progress.busy("reading sessions", shows_progress=True):
    timer = next(each for each in threading.enumerate() if isinstance(each, threading.Timer))
    {wait}
"""


def stderr_of(delay: float, wait: str) -> str:
    ours, theirs = pty.openpty()
    code = WAIT_FOR_THE_SIGN.format(delay=delay, wait=wait)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TERM": "xterm"},
        stdout=subprocess.PIPE,
        stderr=theirs,
        check=False,
    )
    os.write(theirs, b"END")
    os.close(theirs)
    shown = os.read(ours, 65536)
    os.close(ours)
    assert (done.returncode, done.stdout) == (0, b"")
    return shown.decode()


def test_long_work_shows_an_activity_line() -> None:
    assert "reading sessions" in stderr_of(0, "timer.join()")


def test_short_work_shows_no_progress() -> None:
    assert stderr_of(60, "pass") == "END"


def test_no_activity_line_is_shown_without_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with busy("reading sessions", shows_progress=False):
        pass
    assert capfd.readouterr() == ("", "")
