"""Opens the bytes of a source, plain or zstd, read-only. Callers turn errors into problems.

`RawFile` reads the heads and tails of very many files without the cost of a stream.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final, Self, cast

CHUNK: Final = 1 << 20
_LAST_READ: Final = 1 << 14  # bytes requested at the expected end: a writer may have appended some
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_BINARY", 0)


class DecoderMissingError(OSError):
    """The decoder of a compressed source is not installed."""


def open_stream(path: Path | str) -> AbstractContextManager[BinaryIO]:
    """Open a file for reading; a file named `.zst` is decompressed while it is read."""
    if str(path).endswith(".zst"):
        return _open_zstd(path)
    return cast("BinaryIO", open(path, "rb", buffering=0))  # noqa: PTH123 - thousands of files


def chunks(stream: BinaryIO, size: int = CHUNK) -> Iterator[bytes]:
    """Yield the rest of a stream, up to `size` bytes at a time.

    No more bytes are requested than the file has: allocating and freeing a larger buffer for every
    file would take longer than reading it.
    """
    try:
        rest = os.fstat(stream.fileno()).st_size - stream.tell()
    except (OSError, AttributeError):  # not a file: it is decompressed while it is read
        rest = None
    while chunk := stream.read(size if rest is None else min(size, max(rest, _LAST_READ))):
        yield chunk
        if rest is not None:
            rest -= len(chunk)


@contextmanager
def _open_zstd(path: Path | str) -> Generator[BinaryIO]:
    with open(path, "rb") as raw, _zstd_reader(raw) as plain:  # noqa: PTH123 - it may be a string
        yield plain


def decompress(data: bytes, *, limit: int) -> bytes:
    """Decompress zstd data; raise OSError if the result has more than `limit` bytes."""
    with _zstd_reader(BytesIO(data)) as plain:
        found = plain.read(limit + 1)
    if len(found) > limit:
        raise OSError(f"zstd data of more than {limit} bytes")
    return found


@contextmanager
def _zstd_reader(raw: BinaryIO) -> Generator[BinaryIO]:
    try:
        import zstandard
    except ImportError as error:
        raise DecoderMissingError("install `zstandard` to read .zst files") from error
    try:
        with zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True) as plain:
            yield cast("BinaryIO", plain)
    except zstandard.ZstdError as error:
        raise OSError(f"damaged zstd data: {error}") from error


class RawFile:
    """An open file without the overhead of a stream."""

    __slots__ = ("_file",)

    def __init__(self, path: str) -> None:
        self._file = os.open(path, _FLAGS)

    def __enter__(self) -> Self:
        """Return the file; leaving the `with` statement closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        os.close(self._file)

    def next(self, size: int) -> bytes:
        """Return the next bytes; fewer than `size` only at the end."""
        return os.read(self._file, size)

    def last(self, size: int) -> bytes:
        """Return the last bytes of the file."""
        try:
            os.lseek(self._file, -size, os.SEEK_END)
        except OSError:  # the file is shorter than that
            os.lseek(self._file, 0, os.SEEK_SET)
        return os.read(self._file, size)
