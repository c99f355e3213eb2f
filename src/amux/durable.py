"""Files that several processes write to: private modes, locks, and syncing to the disk.

A lock belongs to an open file and is released when that file is closed, also by the end of its
process. It binds only programs that ask for it: readers take no lock. A connection to a database
belongs to the process that opened it: a fork of that process must open its own. Locks of threads
are lost in a fork, too, because of the threads only one goes on there.
"""

from __future__ import annotations

import os
import sys
import threading
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


def release(descriptor: int) -> None:
    """Give the lock of an open file back and close it.

    A process that was forked meanwhile has the file open as well, so closing would not be enough.
    """
    try:
        unlock(descriptor)
    finally:
        os.close(descriptor)


class Forkable(Protocol):
    """An object with connections, locks or threads that a forked process must not use."""

    def abandon(self) -> None:
        """Forget them, without ending or releasing anything: the parent uses them."""


class Quiet(Forkable, Protocol):
    """An object with a lock under which all its work is done, and which a copy needs at rest."""

    def hold(self, timeout: float) -> bool:
        """Wait for the lock, and return whether it was released in time."""
        ...

    def let_go(self) -> None:
        """Release the lock."""


_HOLD_SECONDS: Final = 30.0
"""How long a fork waits: for ever, two threads that wait for each other's locks would block it."""

_FORKABLE: Final[WeakSet[Forkable]] = WeakSet()
_QUIET: Final[WeakSet[Quiet]] = WeakSet()
_held: Final[dict[int, list[Quiet]]] = {}  # by the thread that forks


def abandon_after_fork(owner: Forkable) -> None:
    """Let an object begin anew in every process that is forked from this one."""
    _FORKABLE.add(owner)


def hold_while_forking(owner: Quiet) -> None:
    """Fork only when no thread works with an object, which also begins anew in the fork."""
    _QUIET.add(owner)
    _FORKABLE.add(owner)


def _hold_all() -> None:
    held = [owner for owner in list(_QUIET) if owner.hold(_HOLD_SECONDS)]
    _held[threading.get_ident()] = held


def _let_go() -> None:
    for owner in _held.pop(threading.get_ident(), ()):
        owner.let_go()


def _abandon_all() -> None:
    _held.clear()
    for owner in list(_FORKABLE):
        owner.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_all, after_in_parent=_let_go, after_in_child=_abandon_all)
