"""Files that several processes write to: private modes, locks, and syncing to the disk.

A lock belongs to an open file and is released when that file is closed, also by the end of its
process. It binds only programs that ask for it: readers take no lock. A connection to a database
belongs to the process that opened it: a fork of that process must open its own.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final, Protocol
from weakref import WeakSet

PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700
BINARY: Final[int] = getattr(os, "O_BINARY", 0)  # only Windows distinguishes text from bytes

if sys.platform == "win32":
    import msvcrt

    _LOCKED_BYTE: Final = 1 << 62  # past every end: Windows would lock out readers of a real byte

    def lock(descriptor: int) -> None:
        """Wait for the exclusive lock of an open file."""
        position = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        while True:
            try:
                msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
            except OSError:  # it gives up after ten seconds
                continue
            break
        os.lseek(descriptor, position, os.SEEK_SET)

    def try_lock(descriptor: int) -> bool:
        """Take the exclusive lock of an open file; return False if another one holds it."""
        position = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, position, os.SEEK_SET)
        return True

    def unlock(descriptor: int) -> None:
        """Give the lock of an open file back."""
        position = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
        os.lseek(descriptor, position, os.SEEK_SET)

    def sync(descriptor: int) -> None:
        """Return when the content of an open file is on the disk."""
        os.fsync(descriptor)

    def sync_folder(folder: Path) -> None:
        """Do nothing: Windows cannot open directories and need not sync them."""

else:
    import fcntl

    _FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)

    def lock(descriptor: int) -> None:
        """Wait for the exclusive lock of an open file."""
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # the kernel queues waiters: no writer starves

    def try_lock(descriptor: int) -> bool:
        """Take the exclusive lock of an open file; return False if another one holds it."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(descriptor: int) -> None:
        """Give the lock of an open file back."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def sync(descriptor: int) -> None:
        """Return when the content of an open file is on the disk."""
        if _FULL_SYNC is not None:  # macOS: fsync leaves the data in the cache of the drive
            fcntl.fcntl(descriptor, _FULL_SYNC)
        else:
            os.fdatasync(descriptor)  # the size is part of it, the time of the change is not

    def sync_folder(folder: Path) -> None:
        """Sync a directory: a new name is on the disk only after its directory is."""
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_private_folder(folder: Path) -> list[Path]:
    """Create a directory and its missing parents for the owner alone.

    Returns the directories in which a name was created, for `sync_folder`. An existing directory
    keeps its mode.
    """
    missing: list[Path] = []
    while not folder.is_dir():
        missing.append(folder)
        if folder == folder.parent:
            break
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    return [each.parent for each in missing]


class Connected(Protocol):
    """An object with a connection that a forked process must not use."""

    def abandon(self) -> None:
        """Forget the connection and all locks, without closing anything: the parent uses them."""


_CONNECTED: Final[WeakSet[Connected]] = WeakSet()


def abandon_after_fork(owner: Connected) -> None:
    """Let an object abandon its connection in every process that is forked from this one."""
    _CONNECTED.add(owner)


def _abandon_all() -> None:
    for owner in list(_CONNECTED):
        owner.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)
