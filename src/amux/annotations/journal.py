"""Durable appending of whole lines to a file that several processes write to.

Writers are serialised by a lock on a separate file, which is released if its process ends. Lines
are appended with one write and are on the disk when `append` returns. Readers take no lock: they
see whole lines, possibly followed by a part of one.
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
_BINARY: int = getattr(os, "O_BINARY", 0)  # only Windows distinguishes text from bytes

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
        del folder  # Windows cannot open directories and need not sync them

else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # the kernel queues waiters: no writer starves

    def _sync_folder(folder: Path) -> None:
        """Sync a directory: a new name is on the disk only after its directory is."""
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def exclusive(lock: Path) -> Generator[None]:
    """Wait for the lock and hold it during the block. The directory is created if missing."""
    if not lock.parent.is_dir():
        lock.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
        _sync_folder(lock.parent.parent)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, _PRIVATE_FILE)
    try:
        _take(descriptor)
        yield
    finally:
        os.close(descriptor)  # releases the lock


def read(path: Path) -> bytes:
    """Return the content of a file; b"" if it is missing."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def append(path: Path, lines: bytes) -> None:
    """Append whole lines with one write and sync the file. The caller holds the lock.

    An unfinished line at the end of the file is terminated first.
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
    """Replace the content of a file atomically. The caller holds the lock."""
    target = path.resolve()  # a symbolic link is preserved
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
