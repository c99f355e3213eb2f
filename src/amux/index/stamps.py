"""Whether a source is as it was: size, time, inode and mode of every file it consists of.

A file that changed within the last moments could change again without its time showing it; such a
stamp equals nothing, not even itself taken anew.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISDIR
from typing import Final

from amux.adapters._base import SourceRef
from amux.index.snapshot import UNSETTLED_NS

UNSETTLED: Final = b"?"


def stamp(source: SourceRef) -> bytes:
    """What to compare; `UNSETTLED` while the source is being written this very moment."""
    parts: list[str] = []
    newest = 0
    for path in (str(source.path), f"{source.path}-wal", *map(str, source.beside)):
        parts.append(path)  # what lies beside may become another file
        for line, changed in _look(path):
            parts.append(line)
            newest = max(newest, changed)
    if newest > time.time_ns() - UNSETTLED_NS:
        return UNSETTLED
    return "\n".join(parts).encode("utf-8", "surrogateescape")


def _look(path: str) -> Iterator[tuple[str, int]]:
    try:
        found = os.stat(path)  # noqa: PTH116 - thousands of times per command
    except OSError:
        yield "-", 0
        return
    # The mode, too: what was readable may have been closed.
    line = f"{found.st_size} {found.st_mtime_ns} {found.st_ino} {found.st_mode}"
    yield line, found.st_mtime_ns
    if S_ISDIR(found.st_mode):
        for place, folders, names in os.walk(path):
            folders.sort()
            for name in sorted(names):
                for line, changed in _look(str(Path(place, name))):
                    yield f"{name} {line}", changed
