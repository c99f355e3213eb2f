"""Appends whole lines to a file that several processes write to.

The contract:

- **A batch is one write.** The lines of one `append` become visible together, are never mixed with
  those of another writer, and a reader that stops at the last line break never sees a part of one.
- **Nothing is changed in place.** The old bytes are always the beginning of the new file.
- **An acknowledged batch survives.** When `append` returns, the lines survive the end of this
  process, however it ends. They survive a power failure if they were synced: always with
  `fsync="always"`, at the end of a turn with `"turn"` (all earlier lines of the file included),
  never with `"never"`. Creating a file also syncs its directory, unless the policy is `"never"`.
- **A failed batch leaves nothing.** If only a part of a batch could be written (a full disk, a
  limit on file sizes), that part is removed again and `StoreError` is raised. If the part cannot be
  removed either, or if the machine stops in the middle of a write, the file ends with a torn line.
  If only syncing failed, the whole batch is in the file, but perhaps not on the disk.
- **A torn line is sealed.** An append terminates it before its own lines, which therefore begin on
  a fresh line. Readers skip the torn line and report it.
- **Writers wait for each other.** Each append opens the file, takes the lock of the file and closes
  it again, so threads, processes and forks of a process need no coordination, and no descriptor
  stays open. A file that was replaced while a writer waited is opened again; one that was moved or
  deleted is an error and is not created anew. Programs that do not take the lock may append too, as
  long as they write whole lines.

With `keep_open` the descriptor stays open between appends, which is faster, and the number of the
inode is not used again meanwhile. Such an object may be used by one thread at a time; the child of
a fork opens the file for itself, because a lock belongs to what was opened.

New files are readable for their owner alone (0600), and so are new directories (0700).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

from amux.durable import (
    BINARY,
    PRIVATE_FILE,
    lock,
    make_private_folder,
    release,
    sync,
    sync_folder,
    unlock,
)
from amux.errors import StoreError

Fsync = Literal["never", "turn", "always"]
"""When appended lines are forced to the disk."""

_FLAGS: Final = os.O_RDWR | os.O_APPEND | BINARY  # Python adds O_CLOEXEC
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DENIED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR})


class LineFile:
    """A file of lines at a path. Creating the object accesses nothing."""

    __slots__ = ("_kept", "_name", "_opened_by", "fsync", "keep_open", "path")

    def __init__(self, path: Path, *, fsync: Fsync = "turn", keep_open: bool = False) -> None:
        self.path = path
        self.fsync: Fsync = fsync
        self.keep_open = keep_open
        self._name = str(path)  # `Path` is slow
        self._kept = -1
        self._opened_by = 0  # the process

    def create(self, lines: bytes) -> bool:
        """Create the file with its first lines, and its directory if that is missing.

        Returns False and changes nothing if the path is taken. If the lines cannot be written, no
        file remains.

        Raises:
            StoreError: The directory or the file cannot be created or written.
        """
        with _as_store_error("create", self.path):
            changed = {*make_private_folder(self.path.parent), self.path.parent}
            try:
                descriptor = os.open(self.path, _FLAGS | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
            except FileExistsError:
                return False
            try:
                lock(descriptor)
                LockedLines(self, descriptor, os.fstat(descriptor)).write(lines, turn_end=True)
            except BaseException:
                with suppress(OSError):
                    self.path.unlink()
                raise
            finally:
                release(descriptor)
            if self.fsync != "never":
                for folder in changed:
                    sync_folder(folder)
        return True

    def append(self, lines: bytes, *, turn_end: bool = False, create: bool = False) -> int:
        """Append whole lines and return the offset at which they begin.

        `turn_end` syncs the file if the policy is `"turn"`. A missing file is an error unless
        `create` is set.

        Raises:
            StoreError: The lines could not be written or synced.
        """
        with self.exclusive(create=create) as locked:
            return locked.write(lines, turn_end=turn_end)

    @contextmanager
    def exclusive(self, *, create: bool = False) -> Generator[LockedLines]:
        """Hold the lock during the block, for a write that depends on the content of the file.

        Raises:
            StoreError: The file cannot be opened, or an operation of the block failed.
        """
        with _as_store_error("append to", self.path):
            if create:
                self.create(b"")
            locked = self.lock()
            try:
                yield locked
            finally:
                locked.release()

    def sync(self) -> None:
        """Force all lines to the disk, whatever the policy is.

        Raises:
            StoreError: The file cannot be opened or synced.
        """
        with _as_store_error("sync", self.path):
            locked = self.lock()
            try:
                locked.sync()
            finally:
                locked.release()
            sync_folder(self.path.parent)

    def lock(self) -> LockedLines:
        """Wait for the lock of the file that is at the path, and return its content.

        The caller calls `release`. `exclusive` does both.

        Raises:
            OSError: The file cannot be opened; FileNotFoundError if it was moved or deleted.
        """
        while True:
            descriptor = self._open()
            try:
                lock(descriptor)
                opened, there = os.fstat(descriptor), os.stat(self._name)  # noqa: PTH116 - as above
                if opened.st_ino == there.st_ino and opened.st_dev == there.st_dev:
                    return LockedLines(self, descriptor, opened)
            except FileNotFoundError:
                pass  # moved or deleted while this writer waited: the next attempt says so
            except BaseException:
                self.close(descriptor)
                raise
            self.close(descriptor)

    def move(self, path: Path) -> None:
        """Take note of the path to which the file was moved; the descriptor stays open."""
        self.path, self._name = path, str(path)

    def _open(self) -> int:
        if self._kept >= 0 and self._opened_by != os.getpid():
            self.close()  # of the parent: it would share its lock
        if self._kept >= 0:
            return self._kept
        descriptor = os.open(self._name, _FLAGS)
        if self.keep_open:
            self._kept, self._opened_by = descriptor, os.getpid()
        return descriptor

    def close(self, descriptor: int | None = None) -> None:
        """Close a descriptor, by default the one that stays open between appends."""
        descriptor = self._kept if descriptor is None else descriptor
        if descriptor == self._kept:
            self._kept = -1
        if descriptor >= 0:
            os.close(descriptor)


class LockedLines:
    """The content of a file whose lock is held. `size` is the number of bytes in the file."""

    __slots__ = ("_file", "descriptor", "inode", "size")

    def __init__(self, file: LineFile, descriptor: int, stat: os.stat_result) -> None:
        self._file = file
        self.descriptor = descriptor
        self.inode = stat.st_ino
        self.size = stat.st_size

    def release(self) -> None:
        """Give the lock back."""
        if self._file.keep_open:
            unlock(self.descriptor)
        else:
            release(self.descriptor)

    def read(self, start: int = 0) -> bytes:
        """Return the bytes from an offset to the end of the file."""
        os.lseek(self.descriptor, start, os.SEEK_SET)
        chunks: list[bytes] = []
        while chunk := os.read(self.descriptor, 1 << 20):
            chunks.append(chunk)
        return b"".join(chunks)

    def write(self, lines: bytes, *, turn_end: bool = False, is_torn: bool | None = None) -> int:
        """Append whole lines with one write and return the offset at which they begin.

        A caller that knows whether the file ends within a line says so with `is_torn`.

        Raises:
            OSError: The lines could not be written or synced; `exclusive` turns it into StoreError.
        """
        if lines and not lines.endswith(b"\n"):
            raise ValueError("lines must end with a line break")
        if is_torn is None:
            is_torn = self.is_torn()
        sealed = b"\n" + lines if lines and is_torn else lines
        written = os.write(self.descriptor, sealed) if sealed else 0
        if written < len(sealed):
            self._take_back(written)
            raise OSError(errno.ENOSPC, f"only {written:,} of {len(sealed):,} bytes fit")
        start = self.size + len(sealed) - len(lines)
        self.size += len(sealed)
        if self._file.fsync == "always" or (turn_end and self._file.fsync == "turn"):
            sync(self.descriptor)
        return start

    def sync(self) -> None:
        """Force all lines to the disk; raise OSError if that fails."""
        sync(self.descriptor)

    def is_torn(self) -> bool:
        """Return whether the file ends within a line."""
        if self.size == 0:
            return False
        os.lseek(self.descriptor, -1, os.SEEK_END)
        return os.read(self.descriptor, 1) != b"\n"

    def _take_back(self, written: int) -> None:
        """Remove the written part of a batch, unless another program has appended after it."""
        with suppress(OSError):  # then the next append seals the torn line
            if os.fstat(self.descriptor).st_size == self.size + written:
                os.ftruncate(self.descriptor, self.size)


@contextmanager
def _as_store_error(action: str, path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"cannot {action} `{path}` ({reason})", hint=_hint(error)) from error


def _hint(error: OSError) -> str:
    if error.errno in _NO_SPACE:
        return "nothing of it was kept; free disk space or raise the limit on file sizes"
    if error.errno in _DENIED:
        return "your user needs write permission for the file and its directory"
    if error.errno in _GONE:
        return "the file or its directory was moved or deleted; open it where it is now"
    return "check the file system; lines that were acknowledged before are not affected"
