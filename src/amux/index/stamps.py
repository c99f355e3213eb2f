"""Whether a source is as it was: size, time, inode and mode of every file it consists of.

A file that changed within the last moments could change again without its time showing it; such a
stamp equals nothing, not even itself taken anew.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from stat import S_ISDIR
from typing import Final, NamedTuple

from amux.adapters._base import SourceRef
from amux.host import unreadable_parent
from amux.index.snapshot import UNSETTLED_NS

UNSETTLED: Final = b"?"
_LOGS: Final = (".jsonl", ".json", ".zst")  # a database has a write-ahead log beside it


class Look(NamedTuple):
    """How a source is. Size and time are those of its own file, 0 when that is gone."""

    stamp: bytes  # what to compare; `UNSETTLED` while it is being written this very moment
    size: int
    changed_ns: int


def look_at_source(source: SourceRef) -> Look:
    """One look at all files of a source."""
    seen = _Seen()
    own = seen.look(source.place)
    if not source.place.endswith(_LOGS):
        seen.look(f"{source.place}-wal")
    for each in source.beside:
        seen.look(str(each))
    if own is None:
        return Look(seen.stamp(), 0, 0)
    return Look(seen.stamp(), own.st_size, own.st_mtime_ns)


def stamp(source: SourceRef) -> bytes:
    """What to compare of a source."""
    return look_at_source(source).stamp


def file_mark(found: os.stat_result) -> str:
    """How a file is. The mode, too: what was readable may have been closed."""
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ino} {found.st_mode}"


def mark_in(stamp: bytes, path: Path) -> bytes:
    """How the file itself was when its source was stamped; b"" when that is not known."""
    name = os.fsencode(path) + b"\n"
    return stamp[len(name) :].partition(b"\n")[0] if stamp.startswith(name) else b""


class _Seen:
    """What was seen of some files, and the time of the newest change."""

    __slots__ = ("_newest", "_parts")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._newest = 0

    def look(self, path: str) -> os.stat_result | None:
        """Note how a file is, or every file of a folder; None: there is none."""
        try:
            found = os.stat(path)  # noqa: PTH116 - thousands of times per command
        except PermissionError:  # a problem names the folder that is closed
            self._parts += (path, f"! {unreadable_parent(Path(path))}")
            return None
        except OSError:
            self._parts += (path, "-")
            return None
        self._parts += (path, file_mark(found))  # what lies beside may become another file
        self._newest = max(self._newest, found.st_mtime_ns)
        if S_ISDIR(found.st_mode):
            self._look_below(path)
        return found

    def _look_below(self, folder: str) -> None:
        for place, folders, names in os.walk(folder):
            folders.sort()
            for name in sorted(names):
                self.look(os.path.join(place, name))  # noqa: PTH118

    def stamp(self) -> bytes:
        """All of it."""
        if self._newest > time.time_ns() - UNSETTLED_NS:
            return UNSETTLED
        return "\n".join(self._parts).encode("utf-8", "surrogateescape")
