"""The files of a store: their names, their modes, and how a thread is found by its id.

    sessions/rollout-2026-11-18T03-00-00-<uuid>.jsonl     the threads
    archived_sessions/                                    archived threads, under the same names
    keys/<sha-256>                                        external keys: the id of the thread
    leases/<uuid>.json                                    running turns
    transactions/<id>.json                                appends to several threads, while they run
    blobs/<xx>/<sha-256>                                  large values that records refer to
    values/<sha-256>                                      values that are replaced as a whole
    changed/<uuid>                                        threads the index has not read to the end
    damaged/                                              originals of threads that were repaired
    store.lock                                            held while threads are created or titled;
                                                          one byte per thread that was created

The names of threads sort by time. Directories have mode 0700 and files 0600.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Collection, Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from amux.durable import abandon_after_fork, lock, release, sync_folder
from amux.errors import StoreError
from amux.rollout.records import new_record_id

SESSIONS: Final = "sessions"
ARCHIVE: Final = "archived_sessions"
_FOLDERS: Final = (
    SESSIONS, ARCHIVE, "keys", "leases", "transactions", "blobs", "values", "changed",
)  # fmt: skip
_PREFIX: Final = "rollout-"
_SUFFIX: Final = ".jsonl"
_UUID_LENGTH: Final = 36


def rollout_name(created_at: datetime, thread_id: str) -> str:
    """Return the file name of a thread."""
    stamp = created_at.astimezone(UTC).strftime("%Y-%m-%dT%H-%M-%S")
    return f"{_PREFIX}{stamp}-{thread_id}{_SUFFIX}"


def thread_id_in(name: str) -> str | None:
    """Return the id in the name of a rollout; None if it is another file."""
    if not (name.startswith(_PREFIX) and name.endswith(_SUFFIX)):
        return None
    thread_id = name[: -len(_SUFFIX)][-_UUID_LENGTH:]
    return thread_id if len(thread_id) == _UUID_LENGTH else None


class StoreLayout:
    """The directory of a store. Nothing is created before the first write."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.sessions = base / SESSIONS
        self.archive = base / ARCHIVE
        self._folders = (str(self.sessions), str(self.archive))
        self._names: dict[str, str] = {}
        self._listed: dict[str, int] = {}
        self._created = -1  # the size of store.lock when all names were known
        self._lock = threading.Lock()
        self._exists = False
        abandon_after_fork(self)

    def abandon(self) -> None:
        """Forget the lock, which a thread of the parent may hold."""
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Create the directories, if they are missing."""
        if self._exists:
            return
        try:
            self.base.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in _FOLDERS:
                (self.base / name).mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise store_error(error, "create", self.base) from error
        self._exists = True

    def path_of(self, thread_id: str) -> str | None:
        """Return the path of a thread, archived or not; None if there is none."""
        with self._lock:
            path = self._names.get(thread_id)
            if path is not None and _is_file(path):
                return path
            self._list_names()
            return self._names.get(thread_id)

    def paths(self) -> dict[str, str]:
        """Return the paths of all threads by id. If an id occurs twice, the archive loses."""
        with self._lock:
            self._list_names()
            return dict(self._names)

    def reserve(self, thread_id: str, lock: int) -> bool:
        """Count a thread that the holder of `locked` creates; return False if it exists.

        Only threads that other processes created have to be looked for. None is created now, and
        the size of the lock file tells whether one was created before.
        """
        size = os.fstat(lock).st_size
        with self._lock:
            if size != self._created:
                self._listed = {}
                self._list_names()
            is_known = thread_id in self._names
        if is_known and self.path_of(thread_id) is not None:
            return False
        try:
            os.write(lock, b"\n")
        except OSError as error:
            raise store_error(error, "write", self.base / "store.lock") from error
        self._created = size + 1
        return True

    def _list_names(self) -> None:
        """List the directories that have changed since they were listed."""
        stamps = {folder: _mtime(folder) for folder in self._folders}
        if stamps == self._listed:
            return
        names: dict[str, str] = {}
        for folder in reversed(self._folders):
            with (
                contextlib.suppress(FileNotFoundError),
                as_store_error("list", folder),
                os.scandir(folder) as entries,
            ):
                for entry in entries:
                    thread_id = thread_id_in(entry.name)
                    if thread_id is not None:
                        names[thread_id] = entry.path
        self._names = names
        # A directory may change again within the resolution of its time: list it again then.
        recent = datetime.now(UTC).timestamp() * 1e9 - 5e7
        self._listed = stamps if all(stamp < recent for stamp in stamps.values()) else {}

    def remember(self, thread_id: str, path: str) -> None:
        """Note the path of a thread that this process has created or moved."""
        with self._lock:
            self._names[thread_id] = path

    def is_archived(self, path: str) -> bool:
        """Return whether a path lies in the archive."""
        return path.startswith(self._folders[1])

    def keep_damaged(self, path: str, now: datetime) -> Path:
        """Give a damaged file a second name in `damaged`, and return it."""
        folder = self.base / "damaged"
        stamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%S")
        target = folder / f"{Path(path).name}.{stamp}-{new_record_id()[:4]}"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            os.link(path, target)  # the file stays in its place until the new one replaces it
        except OSError as error:
            raise store_error(error, "keep", target) from error
        return target

    def remove_damaged(self, thread_ids: Collection[str]) -> None:
        """Remove the originals of threads that were repaired."""
        folder = self.base / "damaged"
        for path in folder.iterdir() if folder.is_dir() else ():
            if any(thread_id in path.name for thread_id in thread_ids):
                try:
                    path.unlink(missing_ok=True)
                except OSError as error:
                    raise store_error(error, "delete", path) from error

    @contextlib.contextmanager
    def locked(self) -> Generator[int]:
        """Hold the lock of the store: one process creates or titles threads at a time.

        The value is the descriptor of the lock file.
        """
        self.prepare()
        path = self.base / "store.lock"
        try:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise store_error(error, "lock", path) from error
        try:
            lock(descriptor)
            yield descriptor
        finally:
            release(descriptor)


def digest_of(*parts: str) -> str:
    """Return a file name for texts that may contain anything."""
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()


def write_file(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Replace a file as a whole: readers see the old content or the new one."""
    temporary = path.with_name(f".{path.name}.{new_record_id()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, data)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
        if durable:
            sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise store_error(error, "write", path) from error


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes; a write of many gigabytes takes several calls."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def store_error(error: OSError, verb: str, path: Path | str) -> StoreError:
    """Return the error for a failed operation on a file of the store."""
    if isinstance(error, NotADirectoryError):
        files = [each for each in Path(path).parents if each.is_file()]
        if files:
            return StoreError(f"`{files[0]}` is a file, not the directory of a store")
    return StoreError(
        f"cannot {verb} `{path}`: {error.strerror or error}",
        hint="check the free space and the permissions of the store's directory",
    )


@contextlib.contextmanager
def as_store_error(verb: str, path: Path | str) -> Generator[None]:
    """Raise the errors of the file system in the block as `StoreError`.

    A file that is not there stays `FileNotFoundError`: the caller knows what that means.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise store_error(error, verb, path) from error


def _is_file(path: str) -> bool:
    try:
        os.stat(path)  # noqa: PTH116 - a string is faster, and this runs for every append
    except OSError:
        return False
    return True


def _mtime(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 - likewise
    except OSError:
        return 0
