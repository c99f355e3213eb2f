"""One file that carries a thread to another machine: its records and its blobs."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from amux.durable import BINARY, PRIVATE_FILE
from amux.errors import StoreError
from amux.rollout.log import ThreadLog, check_meta
from amux.rollout.records import Record, decode_line, encode_record, meta_of
from amux.store.imported_records import prepare_records

_MANIFEST: Final = "manifest.json"
_ROLLOUT: Final = "rollout.jsonl"
_BLOBS: Final = "blobs/"
_MOST_BYTES: Final = 4 * 2**30  # a packed file may claim any size
_NOT_A_PACK: Final = (
    OSError, zipfile.BadZipFile, zlib.error, KeyError, EOFError, NotImplementedError, RuntimeError,
    ValueError,
)  # fmt: skip
"""The errors that `zipfile` raises for a file that is no archive, or that has a password."""


def pack(log: ThreadLog, thread_id: str, path: Path) -> Path:
    """Write a thread with its blobs into one file; raise `StoreError` if the file exists."""
    records = list(log.read(thread_id))
    blobs = sorted({digest for record in records for digest in record.blobs})
    manifest = {"format": "amux-pack", "version": 1, "thread_id": thread_id, "blobs": blobs}
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY, PRIVATE_FILE)
    except OSError as error:
        raise StoreError(f"cannot write `{path}`: {error.strerror or error}") from error
    try:
        with (
            os.fdopen(descriptor, "w+b") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            archive.writestr(_MANIFEST, msgspec.json.encode(manifest))
            archive.writestr(_ROLLOUT, b"".join(map(encode_record, records)))
            for digest in blobs:
                archive.writestr(f"{_BLOBS}{digest}", log.get_blob(digest))
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise StoreError(f"cannot write `{path}`: {error.strerror or error}") from error
        raise
    return path


def unpack(log: ThreadLog, path: Path, cwd_map: Mapping[str, str]) -> str:
    """Store a packed thread and return its id; raise `ConflictError` if the id exists."""
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > _MOST_BYTES:
                raise StoreError(f"`{path}` claims to hold more than {_MOST_BYTES} bytes")
            records = _packed_records(archive.read(_ROLLOUT))
            for name in archive.namelist():
                if name.startswith(_BLOBS):
                    log.put_blob(archive.read(name))
    except _NOT_A_PACK as error:
        raise StoreError(
            f"`{path}` is not a packed thread: {error}", hint="`amux store pack` writes one"
        ) from error
    meta = meta_of(records[0]) if records else None
    if meta is None:
        raise StoreError(f"`{path}` holds no thread")
    meta = check_meta(meta)
    log.create(*prepare_records(meta, records[1:], cwd_map))
    return meta.thread_id


def _packed_records(data: bytes) -> list[Record]:
    lines = (decode_line(raw) for raw in data.split(b"\n") if raw)
    return [line.record for line in lines if line is not None]
