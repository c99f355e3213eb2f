"""Fingerprints of sources: whether a source has changed, without opening it.

A fingerprint holds the size, mtime, inode and mode of every file that a source and its companions
consist of. A file modified less than 50 ms ago can change again without a new mtime, so the
fingerprint of such a source is not settled: the index takes it for unequal to everything.
"""

from __future__ import annotations

import os
import time
from _blake2 import blake2b  # `hashlib` would load OpenSSL
from pathlib import Path
from stat import S_ISDIR
from typing import Final, NamedTuple

from amux.adapters._base import SourceRef
from amux.host import closed_door
from amux.index.snapshot import UNSETTLED_NS

UNSETTLED: Final = b"?"
_LOGS: Final = (".jsonl", ".json", ".zst")
_JOURNALS: Final = ("-wal", "-journal")  # a live database grows in these; a log has none


class Fingerprint(NamedTuple):
    """State of a source. Size, mtime and inode are those of its own file, 0 if it is missing."""

    state: bytes  # equal states mean equal content
    newest_ns: int  # the latest mtime among all its files
    is_settled: bool
    exists: bool = False
    size: int = 0
    changed_ns: int = 0
    inode: int = 0

    @property
    def stored(self) -> bytes:
        """The state to store and to compare later, or `UNSETTLED`, which is never up to date."""
        return self.state if self.is_settled else UNSETTLED


class Fingerprints:
    """Takes the fingerprints of many sources in one pass; each folder is walked once.

    An instance must not outlive its pass. Within it, a folder may have been walked before a source
    is read: a change in between makes the fingerprint too old, so that the source is read again.
    """

    def __init__(self) -> None:
        self._folders: dict[str, _Files] = {}

    def of(self, source: SourceRef) -> Fingerprint:
        """Return the fingerprint of a source and its companions."""
        files = _Files()
        own = self._add(files, source.place)
        if not source.place.endswith(_LOGS):
            for ending in _JOURNALS:
                self._add(files, source.place + ending)
        for path in source.beside:
            self._add(files, str(path))
        state = "\n".join(files.parts).encode("utf-8", "surrogateescape")
        if own is None:
            return Fingerprint(state, files.newest_ns, files.is_settled)
        return Fingerprint(
            state,
            files.newest_ns,
            files.is_settled,
            exists=True,
            size=own.st_size,
            changed_ns=own.st_mtime_ns,
            inode=own.st_ino,
        )

    def _add(self, files: _Files, path: str) -> os.stat_result | None:
        """Add a file or, with every file below it, a folder; None if it is missing."""
        found = files.add(path)
        if found is not None and S_ISDIR(found.st_mode):
            if path not in self._folders:
                self._folders[path] = _walk(path)
            files.add_folder(self._folders[path])
        return found


def file_mark(found: os.stat_result) -> str:
    """Return the state of a file; its mode, too, since a readable file may become unreadable."""
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ino} {found.st_mode}"


def mark_in(state: bytes, path: Path) -> bytes:
    """Return the state of the source's own file within a fingerprint; b"" if it is not known."""
    name = os.fsencode(path) + b"\n"
    return state[len(name) :].partition(b"\n")[0] if state.startswith(name) else b""


class _Files:
    """States of some files. They count as settled if all are older than the first look at them."""

    __slots__ = ("_began_ns", "newest_ns", "parts", "was_settled")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.newest_ns = 0
        self.was_settled = True  # of folders walked earlier
        self._began_ns = time.time_ns()

    @property
    def is_settled(self) -> bool:
        return self.was_settled and self.newest_ns <= self._began_ns - UNSETTLED_NS

    def add(self, path: str) -> os.stat_result | None:
        try:
            found = os.stat(path)  # noqa: PTH116 - thousands of times per command
        except PermissionError:  # a problem names the folder that is closed
            self.parts += (path, f"! {closed_door(Path(path))}")
            return None
        except OSError:
            self.parts += (path, "-")
            return None
        self.parts += (path, file_mark(found))  # a companion may become another file
        self.newest_ns = max(self.newest_ns, found.st_mtime_ns)
        return found

    def add_folder(self, walked: _Files) -> None:
        data = "\n".join(walked.parts).encode("utf-8", "surrogateescape")
        self.parts.append(blake2b(data, digest_size=16).hexdigest())
        self.was_settled &= walked.is_settled
        self.newest_ns = max(self.newest_ns, walked.newest_ns)


def _walk(folder: str) -> _Files:
    files = _Files()
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            files.add(os.path.join(parent, name))  # noqa: PTH118 - likewise
    return files
