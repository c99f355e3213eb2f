"""Fingerprints of sources: whether a source has changed, without opening it.

A fingerprint holds the size, mtime, inode and mode of every file that a source and its companions
consist of. A file modified less than 50 ms ago can change again without a new mtime, so the
fingerprint of such a source is not settled: for the index it differs from everything. An adapter
that determines the state of its sources itself (`Fingerprinted`) replaces all this.
"""

from __future__ import annotations

import os
import time
from _blake2 import blake2b  # `hashlib` would load OpenSSL
from collections.abc import Iterable, Sequence
from pathlib import Path
from stat import S_ISDIR
from typing import Final, NamedTuple

from amux.adapters._base import Adapter, Fingerprinted, SourceRef, is_path
from amux.host import unreadable_parent
from amux.reading.snapshot import BY_ADAPTER, UNSETTLED_NS, take_snapshot

UNSETTLED: Final = b"?"
_LOGS: Final = (".jsonl", ".json", ".zst")
_JOURNALS: Final = ("-wal", "-journal")  # an open database grows in these; a log has none


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
    """Takes the fingerprints of an adapter's sources in one pass, walking each folder once.

    An instance must not outlive its pass. A folder may be walked before a source is read: a change
    in between makes the fingerprint outdated, so that the source is read again.
    """

    def __init__(self, adapter: Adapter) -> None:
        self._own = adapter.fingerprint if isinstance(adapter, Fingerprinted) else None
        self._folders: dict[str, Fingerprint] = {}

    def of(self, source: SourceRef) -> Fingerprint:
        """Return the fingerprint of a source and its companions; its state is b"" if unknown."""
        if self._own is not None or not source.has_path:
            state = b"" if self._own is None else self._own(source)
            return Fingerprint(state, 0, is_settled=state != b"", exists=True)
        files = _Files()
        own = self._add(files, source.location)
        if not source.location.endswith(_LOGS):
            for ending in _JOURNALS:
                self._add(files, source.location + ending)
        for path in source.companions:
            self._add(files, str(path))
        found = files.fingerprint()
        if own is None:
            return found
        size, changed_ns, inode = own.st_size, own.st_mtime_ns, own.st_ino
        return found._replace(exists=True, size=size, changed_ns=changed_ns, inode=inode)

    def _add(self, files: _Files, path: str) -> os.stat_result | None:
        """Add a file or, with every file below it, a folder; None if it is missing."""
        found = files.add(path)
        if found is not None and S_ISDIR(found.st_mode):
            if path not in self._folders:
                self._folders[path] = _walk(path)
            files.add_folder(self._folders[path])
        return found


def state_of_roots(adapter: Adapter, roots: Sequence[str]) -> bytes:
    """Return the state of everything below an agent's roots; b"" if it is unknown.

    The state for an adapter from another package includes its name and revision, since files do not
    show that a different adapter reads them.
    """
    if isinstance(adapter, Fingerprinted):
        states = [adapter.fingerprint(Path(root)) for root in roots]
        state = repr(states).encode() if states and all(states) else b""
    else:
        state = take_snapshot(roots) if all(map(is_path, roots)) else b""
    origin: str | None = getattr(adapter, "origin", None)
    if origin is None or not state:
        return state
    return b"%s%s %d\n%s" % (BY_ADAPTER, origin.encode(), adapter.info.revision, state)


def file_fingerprint(found: os.stat_result) -> str:
    """Return the state of a file, with its mode, since a readable file may become unreadable."""
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ino} {found.st_mode}"


def fingerprint_in(state: bytes, path: Path) -> bytes:
    """Return the state of the source's own file within a fingerprint; b"" if it is missing."""
    name = os.fsencode(path) + b"\n"
    return state[len(name) :].partition(b"\n")[0] if state.startswith(name) else b""


class _Files:
    """States of some files; settled if all are older than the creation of this object."""

    __slots__ = ("_began_ns", "_is_settled", "_newest_ns", "_parts")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._newest_ns = 0
        self._is_settled = True  # of folders walked earlier
        self._began_ns = time.time_ns()

    def fingerprint(self) -> Fingerprint:
        state = "\n".join(self._parts).encode("utf-8", "surrogateescape")
        is_settled = self._is_settled and self._newest_ns <= self._began_ns - UNSETTLED_NS
        return Fingerprint(state, self._newest_ns, is_settled)

    def add(self, path: str) -> os.stat_result | None:
        try:
            found = os.stat(path)  # noqa: PTH116 - thousands of times per command
        except PermissionError:  # the reported problem names the unreadable folder
            self._parts += (path, f"! {unreadable_parent(Path(path))}")
            return None
        except OSError:
            self._parts += (path, "-")
            return None
        self._parts += (path, file_fingerprint(found))  # the path: a companion may be replaced
        self._newest_ns = max(self._newest_ns, found.st_mtime_ns)
        return found

    def add_folder(self, walked: Fingerprint) -> None:
        self._parts.append(walked.state.hex())
        self._is_settled &= walked.is_settled
        self._newest_ns = max(self._newest_ns, walked.newest_ns)


def _walk(folder: str) -> Fingerprint:
    files = _Files()
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            files.add(os.path.join(parent, name))  # noqa: PTH118 - likewise
    found = files.fingerprint()  # reduced to a digest: there may be thousands of files
    return found._replace(state=blake2b(found.state, digest_size=16).digest())


def total_size(sources: Iterable[SourceRef]) -> int:
    """Return the total size of the sources' files; a missing or unreadable file counts as 0."""
    size = 0
    for source in sources:
        try:
            size += os.stat(source.location).st_size if source.has_path else 0  # noqa: PTH116 - likewise
        except OSError:
            continue
    return size
