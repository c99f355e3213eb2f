"""Takes snapshots: digests of the state of all files an answer depends on.

Results computed from many sources stay valid as long as every file below the agent's roots, and a
few others that matter, has the same size, mtime, inode and mode. A snapshot needs no adapter and
opens no file, so the usual case is fast: nothing has changed since the last command.
"""

from __future__ import annotations

import marshal
import os
import time
from collections.abc import Iterable

TYPE_CHECKING = False  # importing `typing` would take a tenth of a fast list
if TYPE_CHECKING:
    from typing import Final

UNSETTLED_NS: Final = 50_000_000
"""File system clocks tick every few ms: a file modified since may change again unnoticed."""

BY_ADAPTER: Final = b"adapter\n"
"""Prefix of states that only an adapter can compute; the fast list does not use them."""

_MAX_ENTRIES: Final = 200_000
_SHARED_MEMORY: Final = "-shm"  # changes with every reader of a database, amux included
_BY_HANDLE: Final = os.scandir in os.supports_fd  # avoids resolving a path for each file
_OPEN_FLAGS: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)  # opening a pipe would block
_MARSHAL_VERSION: Final = 2  # later versions depend on reference counts


def take_snapshot(roots: Iterable[str], files: Iterable[str] = ()) -> bytes:
    """Return a digest of all files below `roots` and of `files`; b"" if unsettled or too many."""
    from _blake2 import blake2b

    found = _Entries()
    for root in roots:
        found.walk(root)
    for path in files:
        found.add_file(path)
    newest = max(found.times, default=0)
    if len(found.names) > _MAX_ENTRIES or newest > time.time_ns() - UNSETTLED_NS:
        return b""
    digest = blake2b("\n".join(found.names).encode("utf-8", "surrogateescape"), digest_size=16)
    digest.update(marshal.dumps(found.times, _MARSHAL_VERSION))
    digest.update(marshal.dumps(found.others, _MARSHAL_VERSION))
    return digest.digest()


class _Entries:
    """Names and numbers of the files found; plain lists, since there are tens of thousands."""

    __slots__ = ("names", "others", "times")

    def __init__(self) -> None:
        self.names: list[str] = []
        self.times: list[int] = []
        self.others: list[int] = []

    def add_file(self, path: str) -> None:
        """Add one file; that it is missing is part of the state."""
        self.names.append(path)
        try:
            found = os.stat(path)  # noqa: PTH116 - pathlib would be most of the work
        except OSError:
            self.names.append("-")
            return
        self.times.append(found.st_mtime_ns)
        self.others += (found.st_size, found.st_ino, found.st_mode)

    def walk(self, root: str) -> None:
        """Add every folder and file below a root; links to folders are not followed."""
        waiting = [root]
        while waiting:
            folder = waiting.pop()
            self.names.append(folder)
            try:
                handle = os.open(folder, _OPEN_FLAGS) if _BY_HANDLE else folder
                try:
                    inner = self._add_entries(handle)
                finally:
                    if isinstance(handle, int):
                        os.close(handle)
            except PermissionError:  # rare, so `amux.host` is imported only here
                from pathlib import Path

                from amux.host import unreadable_parent

                self.names.append(f"! {unreadable_parent(Path(folder))}")
            except OSError as error:
                self.names.append(f"! {error.errno}")
            else:
                waiting += [f"{folder}{os.sep}{name}" for name in inner]

    def _add_entries(self, folder: int | str) -> list[str]:
        """Add the files of one folder; return the names of the folders in it."""
        folders: list[str] = []
        files: list[os.DirEntry[str]] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif not entry.name.endswith(_SHARED_MEMORY):
                    files.append(entry)
            try:  # while the folder is open: `stat` may use its handle
                found = [entry.stat() for entry in files]
            except OSError:  # a broken link, or a file deleted meanwhile
                found = [stat for entry in files if (stat := self._stat(entry))]
        self.names += [entry.name for entry in files]
        self.times += [stat.st_mtime_ns for stat in found]
        self.others += [stat.st_size for stat in found]
        self.others += [stat.st_ino for stat in found]
        self.others += [stat.st_mode for stat in found]
        return folders

    def _stat(self, entry: os.DirEntry[str]) -> os.stat_result | None:
        try:
            return entry.stat()
        except OSError as error:
            self.names += (entry.name, f"! {error.errno}")
            return None
