"""Counts the bytes that this process reads, as reported by the kernel."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path


def bytes_read() -> int:
    """All that this process has read so far."""
    for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines():
        if line.startswith("rchar"):
            return int(line.split()[1])
    raise AssertionError


@contextmanager
def counted_bytes() -> Generator[Callable[[], int]]:
    """What the body reads, to within a few bytes: the count is a text that grows."""
    first = bytes_read()
    start = bytes_read()
    counting, end = start - first, 0  # looking is reading, too
    yield lambda: end - start - counting
    end = bytes_read()
