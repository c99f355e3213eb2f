"""One look at everything an answer was made from, as a single number: unchanged or not.

What is kept of many sources stays true as long as every file below the agent's places, and the few
beside them that matter, has the size, time and inode it had. The look needs no adapter and opens no
file, which is what makes the usual case quick: nothing has changed since the last command.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Final

UNSETTLED_NS: Final = 50_000_000
"""Clocks of file systems tick in steps of a few milliseconds: a newer change may hide another."""

_MOST_ENTRIES: Final = 200_000
_SHARED_MEMORY: Final = "-shm"  # changes with every reader of a database, ours included


def take_snapshot(roots: Iterable[str], files: Iterable[str] = ()) -> bytes:
    """The state of all files below some folders and of some more; b"" when none can be told."""
    from _blake2 import blake2b

    names: list[str] = []
    stats: list[os.stat_result] = []
    for root in roots:
        _walk(root, names, stats)
    for path in files:
        names.append(path)
        try:
            stats.append(os.stat(path))  # noqa: PTH116 - pathlib would be most of the work
        except OSError:
            names.append("-")
    times = [found.st_mtime_ns for found in stats]
    if len(names) > _MOST_ENTRIES or max(times, default=0) > time.time_ns() - UNSETTLED_NS:
        return b""
    digest = blake2b("\n".join(names).encode("utf-8", "surrogateescape"), digest_size=16)
    digest.update(repr(times).encode())
    digest.update(repr([(s.st_size, s.st_ino, s.st_mode) for s in stats]).encode())
    return digest.digest()


def _walk(root: str, names: list[str], stats: list[os.stat_result]) -> None:
    """Add every folder and file below; links to folders are not followed, as nobody does."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        names.append(folder)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif not entry.name.endswith(_SHARED_MEMORY):
                        stats.append(entry.stat())
                        names.append(entry.name)
        except OSError as error:
            names.append(f"! {error.errno}")
