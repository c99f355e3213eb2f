"""Writing lines that survive: a file that grows by whole lines, whoever else writes to it.

Writers take turns by a lock on a file beside it, which ends with the process that holds it. A line
is one write at the end of the file and is on the disk when `append` returns. Readers take no lock:
they see whole lines, and behind them perhaps a part of one.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_PRIVATE_FILE = 0o600
_PRIVATE_FOLDER = 0o700
_BINARY: int = getattr(os, "O_BINARY", 0)  # Windows alone tells text from bytes

if sys.platform == "win32":
    import msvcrt

    def _take(descriptor: int) -> None:
        while True:
            try:
                msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
            except OSError:  # it gives up after ten seconds
                continue
            return

    def _sync_folder(folder: Path) -> None:
        del folder  # cannot be opened there, and need not be

else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # waits in line: no writer starves

    def _sync_folder(folder: Path) -> None:
        """A new name is on the disk only when its folder is."""
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def exclusive(lock: Path) -> Generator[None]:
    """Wait until no other thread or process is inside; makes the folder if need be."""
    if not lock.parent.is_dir():
        lock.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
        _sync_folder(lock.parent.parent)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, _PRIVATE_FILE)
    try:
        _take(descriptor)
        yield
    finally:
        os.close(descriptor)  # gives the lock up


def read(path: Path) -> bytes:
    """The whole file; nothing when there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def append(path: Path, lines: bytes) -> None:
    """Add whole lines with one write and wait for the disk. The caller holds the lock.

    A torn line at the end is closed first, so that it spoils no other.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | _BINARY
    descriptor = os.open(path, flags, _PRIVATE_FILE)
    try:
        size = os.fstat(descriptor).st_size
        sealed = b"\n" + lines if _is_torn(descriptor, size) else lines
        if os.write(descriptor, sealed) < len(sealed):
            os.ftruncate(descriptor, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if size == 0:
        _sync_folder(path.parent)


def replace(path: Path, lines: bytes) -> None:
    """Put other lines in the place of all, at once or not at all. The caller holds the lock."""
    target = path.resolve()  # a link stays a link
    fresh = target.with_name(f"{target.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _BINARY, _PRIVATE_FILE)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(lines)
        stream.flush()
        os.fsync(descriptor)
    fresh.replace(target)
    _sync_folder(target.parent)


def _is_torn(descriptor: int, size: int) -> bool:
    if size == 0:
        return False
    os.lseek(descriptor, -1, os.SEEK_END)
    return os.read(descriptor, 1) != b"\n"
