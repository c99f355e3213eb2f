"""Runs the command and measures its peak memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

KB_PER_MB = 1024
_PER_MB = KB_PER_MB * KB_PER_MB if sys.platform == "darwin" else KB_PER_MB

# Between the tests and the command stands a process that is small itself: a child begins with the
# peak of the process it was started from.
_WATCH = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
sys.stderr.write(f"\\n{resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss}")
sys.exit(code)
"""


class Measured(NamedTuple):
    """What a command wrote, and its peak in megabytes."""

    out: bytes
    peak: float

    def json(self) -> Any:
        return msgspec.json.decode(self.out)


def run_measured(home: Path, *words: str) -> Measured:
    with _start(home, *words) as process:
        out, talk = process.communicate()
    return Measured(out, _peak(process, talk))


def stream_measured(home: Path, *words: str) -> tuple[int, float]:
    """Read the output without keeping it: how many bytes came, and the peak in megabytes.

    The first bytes are read while the command is still at work.
    """
    with _start(home, *words) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        count = len(process.stdout.read(KB_PER_MB))
        assert process.poll() is None, "the command ended before anybody read its output"
        while piece := process.stdout.read(KB_PER_MB * KB_PER_MB):
            count += len(piece)
        talk = process.stderr.read()
    return count, _peak(process, talk)


def _start(home: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "amux", "--home", str(home), "--quiet", *words]
    return subprocess.Popen(
        [sys.executable, "-S", "-c", _WATCH, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _peak(process: subprocess.Popen[bytes], talk: bytes) -> float:
    said, _, figure = talk.rpartition(b"\n")
    assert (process.returncode, said) == (0, b"")
    return int(figure) / _PER_MB
