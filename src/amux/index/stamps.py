"""Whether a source is as it was: size, time, inode and mode of every file it consists of.

A file that changed within the last moments could change again without its time showing it; such a
stamp equals nothing, not even itself taken anew.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from stat import S_ISDIR
from typing import Final

from amux.adapters._base import SourceRef
from amux.index.snapshot import UNSETTLED_NS

UNSETTLED: Final = b"?"


def stamp(source: SourceRef) -> bytes:
    """What to compare; `UNSETTLED` while the source is being written this very moment."""
    path = str(source.path)
    parts: list[str] = []
    newest = max(_look(each, parts) for each in (path, f"{path}-wal", *map(str, source.beside)))
    if newest > time.time_ns() - UNSETTLED_NS:
        return UNSETTLED
    return "\n".join(parts).encode("utf-8", "surrogateescape")


def file_mark(found: os.stat_result) -> str:
    """How a file is. The mode, too: what was readable may have been closed."""
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ino} {found.st_mode}"


def mark_in(stamp: bytes, path: Path) -> bytes:
    """How the file itself was when its source was stamped; b"" when that is not known."""
    name = os.fsencode(path) + b"\n"
    return stamp[len(name) :].partition(b"\n")[0] if stamp.startswith(name) else b""


def _look(path: str, parts: list[str]) -> int:
    """Note how a file is, or every file of a folder; the time of the newest change."""
    parts.append(path)  # what lies beside may become another file
    try:
        found = os.stat(path)  # noqa: PTH116 - thousands of times per command
    except OSError:
        parts.append("-")
        return 0
    parts.append(file_mark(found))
    if S_ISDIR(found.st_mode):
        return max(found.st_mtime_ns, _look_below(path, parts))
    return found.st_mtime_ns


def _look_below(folder: str, parts: list[str]) -> int:
    newest = 0
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            newest = max(newest, _look(os.path.join(place, name), parts))  # noqa: PTH118
    return newest
