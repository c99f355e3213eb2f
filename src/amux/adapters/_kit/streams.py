"""Opening a source's bytes: plain or zstd, shared, read-only. Callers turn errors to problems."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, cast


class DecoderMissingError(OSError):
    """A compressed source whose decoder is not installed."""


@contextmanager
def open_stream(path: Path) -> Generator[BinaryIO]:
    """Open for reading; a name that ends in `.zst` is decompressed on the way."""
    with path.open("rb", buffering=0) as raw:
        if path.suffix != ".zst":
            yield cast("BinaryIO", raw)
            return
        with _zstd_reader(cast("BinaryIO", raw)) as plain:
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
