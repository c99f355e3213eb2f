"""Durable appending of whole lines to a file that several processes write to.

Writers are serialised by a lock on a separate file, which is released if its process ends. Lines
are appended with one write and are on the disk when `append` returns. Readers take no lock: they
see whole lines, possibly followed by a part of one.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from amux.durable import BINARY, PRIVATE_FILE, lock, make_private_folder, sync, sync_folder


@contextmanager
def exclusive(path: Path) -> Generator[None]:
    """Wait for the lock on a file and hold it during the block. Its directory may be missing."""
    for folder in make_private_folder(path.parent):
        sync_folder(folder)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
    try:
        lock(descriptor)
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
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | BINARY
    descriptor = os.open(path, flags, PRIVATE_FILE)
    try:
        size = os.fstat(descriptor).st_size
        sealed = b"\n" + lines if _is_torn(descriptor, size) else lines
        if os.write(descriptor, sealed) < len(sealed):
            os.ftruncate(descriptor, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        sync(descriptor)
    finally:
        os.close(descriptor)
    if size == 0:
        sync_folder(path.parent)


def replace(path: Path, lines: bytes) -> None:
    """Replace the content of a file atomically. The caller holds the lock."""
    target = path.resolve()  # a symbolic link is preserved
    fresh = target.with_name(f"{target.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | BINARY, PRIVATE_FILE)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(lines)
        stream.flush()
        sync(descriptor)
    fresh.replace(target)
    sync_folder(target.parent)


def _is_torn(descriptor: int, size: int) -> bool:
    if size == 0:
        return False
    os.lseek(descriptor, -1, os.SEEK_END)
    return os.read(descriptor, 1) != b"\n"
