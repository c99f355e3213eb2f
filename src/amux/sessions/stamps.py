"""Whether a source has changed, without opening it: size, time and inode of all its files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from amux.adapters._base import SourceRef

FileStamp = tuple[int, int, int] | None
Stamp = tuple[FileStamp, ...]

_JOURNALS = ("-wal", "-journal")
"""A live database grows in these; beside any other file there are none."""


def stamp_of(source: SourceRef) -> Stamp:
    """Equal stamps mean equal content. The file itself comes first; a missing one has none."""
    return tuple(_file_stamp(path) for path in _files(source))


def _files(source: SourceRef) -> Iterable[Path]:
    yield source.path
    for suffix in _JOURNALS:
        yield source.path.with_name(source.path.name + suffix)
    yield from source.beside


def _file_stamp(path: Path) -> FileStamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino
