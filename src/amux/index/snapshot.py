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

_UNSETTLED_NS: Final = 50_000_000
_MOST_ENTRIES: Final = 200_000
_SHARED_MEMORY: Final = "-shm"  # changes with every reader of a database, ours included


def take_snapshot(roots: Iterable[str], files: Iterable[str] = ()) -> bytes:
    """The state of all files below some folders and of some more; b"" when none can be told."""
    from _blake2 import blake2b

    lines: list[str] = []
    newest = 0
    for root in roots:
        newest = max(newest, _walk(root, lines))
        if len(lines) > _MOST_ENTRIES:
            return b""
    for path in files:
        try:
            found = os.stat(path)  # noqa: PTH116 - pathlib is most of the start of a command
        except OSError:
            lines.append(f"{path} -")
        else:
            newest = max(newest, found.st_mtime_ns)
            lines.append(f"{path} {found.st_size} {found.st_mtime_ns} {found.st_ino}")
    if newest < 0 or newest > time.time_ns() - _UNSETTLED_NS:
        return b""
    return blake2b("\n".join(lines).encode("utf-8", "surrogateescape"), digest_size=16).digest()


def _walk(root: str, lines: list[str]) -> int:
    """Add a line for every file; the newest time of change, or more than any time: do not trust."""
    newest = 0
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        lines.append(folder)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif not entry.name.endswith(_SHARED_MEMORY):
                        found = entry.stat()
                        changed = found.st_mtime_ns
                        newest = max(newest, changed)
                        lines.append(f"{entry.name} {found.st_size} {changed} {found.st_ino}")
        except OSError as error:
            lines.append(f"! {error.errno}")
    return newest
