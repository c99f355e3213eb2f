"""The annotation file: read if it has changed, written under a lock.

A missing file means no annotations and costs one stat call. The code that writes is imported only
for writing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from amux.annotations.events import AnnotationLog, Annotations, Event, encode_events
from amux.errors import AmuxError, ErrorCode
from amux.model.problems import Problem

FILE_NAME: Final = "annotations.jsonl"
LOCK_NAME: Final = "annotations.lock"
LARGE: Final = 1 << 20  # bytes; in a smaller file, obsolete lines cost nothing

_NOTHING: Final = Annotations()

_Fingerprint = tuple[int, int, int]


class AnnotationFile:
    """The file of annotations in one directory."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self._lock = folder / LOCK_NAME
        self._last: tuple[_Fingerprint | None, Annotations] = (None, _NOTHING)

    def current(self) -> Annotations:
        """Return the current annotations; their `problems` name what could not be read."""
        try:
            # taken before reading, so that a later change is noticed by the next call
            fingerprint = _fingerprint_of(self.path)
            last, annotations = self._last
            if fingerprint == last:
                return annotations
            data = b"" if fingerprint is None else self.path.read_bytes()
            found = AnnotationLog(data, path=str(self.path)).annotations()
        except OSError as error:
            reason = error.strerror or str(error)
            problem = Problem(
                code="unreadable",
                message=f"annotations cannot be read ({reason})",
                path=str(self.path),
            )
            return Annotations(problems=(problem,))
        found.state = str(fingerprint)
        self._last = (fingerprint, found)
        return found

    def change(self, decide: Callable[[AnnotationLog], Sequence[Event]]) -> Annotations:
        """Append the events that `decide` returns for the current log, under the lock.

        When this method returns, the events are on the disk.

        Raises:
            AmuxError: The file cannot be written (STORE_ERROR).
        """
        from amux.annotations import journal

        try:
            with journal.exclusive(self._lock):
                log = AnnotationLog(journal.read(self.path), path=str(self.path))
                events = decide(log)
                if events:
                    lines = encode_events(events)
                    journal.append(self.path, lines)
                    log.extend(lines)
                    # Obsolete lines are removed if they make up more than half of a large file.
                    if log.size > LARGE and len(live := log.compacted()) < log.size // 2:
                        with suppress(OSError):  # the events are on the disk already
                            journal.replace(self.path, live)
            return log.annotations()
        except OSError as error:
            raise AmuxError(
                f"annotations cannot be written to `{self.path}` ({error.strerror or error})",
                code=ErrorCode.STORE_ERROR,
                hint="set AMUX_DATA_DIR to a directory that your user can write to",
            ) from error


def _fingerprint_of(path: Path) -> _Fingerprint | None:
    """Return the fingerprint of a file, which changes with the file; None if it is missing."""
    try:
        found = os.stat(path)  # noqa: PTH116 - the only cost if there is no file
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise OSError("it is not a regular file")
    return (found.st_ino, found.st_size, found.st_mtime_ns)
