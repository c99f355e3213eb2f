"""Opening a source's bytes: plain or zstd, shared, read-only. Callers turn errors to problems.

Pieces of files, for those who need the head or the tail of very many.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final, Self, cast

CHUNK: Final = 1 << 20
_LAST_LOOK: Final = 1 << 14  # bytes asked for where no more should be: somebody may have written


class DecoderMissingError(OSError):
    """A compressed source whose decoder is not installed."""


def open_stream(path: Path | str) -> AbstractContextManager[BinaryIO]:
    """Open for reading; a name that ends in `.zst` is decompressed on the way."""
    if str(path).endswith(".zst"):
        return _open_zstd(path)
    return cast("BinaryIO", open(path, "rb", buffering=0))  # noqa: PTH123 - for thousands


def chunks(stream: BinaryIO, size: int = CHUNK) -> Iterator[bytes]:
    """The rest of a stream, up to `size` bytes at a time.

    No more is asked for than there is: memory for more would be given back and taken anew for every
    file, which takes longer than reading it.
    """
    left = _bytes_left(stream)
    while chunk := stream.read(size if left is None else min(size, max(left, _LAST_LOOK))):
        yield chunk
        if left is not None:
            left -= len(chunk)


def _bytes_left(stream: BinaryIO) -> int | None:
    """How much there is at this moment; None: that is not known."""
    try:
        return os.fstat(stream.fileno()).st_size - stream.tell()
    except (OSError, AttributeError):  # no file: it is decompressed on the way
        return None


@contextmanager
def _open_zstd(path: Path | str) -> Generator[BinaryIO]:
    with open(path, "rb") as raw, _zstd_reader(raw) as plain:  # noqa: PTH123 - it may be a text
        yield plain


def decompress(data: bytes, *, limit: int) -> bytes:
    """The plain bytes of zstd data; more than `limit` of them are an error, not a memory hole."""
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


_FLAGS: Final = os.O_RDONLY | getattr(os, "O_BINARY", 0)


class Pieces:
    """An open file, without what a stream costs."""

    __slots__ = ("_file",)

    def __init__(self, place: str) -> None:
        self._file = os.open(place, _FLAGS)

    def __enter__(self) -> Self:
        """Use it in a `with` statement: it has to be closed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        os.close(self._file)

    def next(self, size: int) -> bytes:
        """The bytes that come next; fewer only at the end."""
        return os.read(self._file, size)

    def last(self, size: int) -> bytes:
        """The bytes at the end."""
        try:
            os.lseek(self._file, -size, os.SEEK_END)
        except OSError:  # there are not so many
            os.lseek(self._file, 0, os.SEEK_SET)
        return os.read(self._file, size)
