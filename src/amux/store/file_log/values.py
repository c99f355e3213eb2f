"""Blobs and values: bytes beside the rollouts.

A blob is named by its SHA-256 and never changes. A value has a key and is replaced as a whole; its
file begins with a line that holds the key and the version.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable, Container, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from amux.errors import ConflictError, StoreError, ValidationError
from amux.rollout.log import StoredValue, check_key
from amux.rollout.records import new_record_id
from amux.store.file_log.layout import StoreLayout, as_store_error, digest_of, write_file

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_YOUNG: Final = 3600.0  # seconds: a blob is stored before the record that refers to it


class _Header(msgspec.Struct, frozen=True):
    key: tuple[str, ...]
    version: str
    updated_at: datetime


_HEADER: Final = msgspec.json.Decoder(_Header)


class BlobFiles:
    """The blobs of a store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, data: bytes, *, durable: bool) -> str:
        """Store bytes and return their SHA-256."""
        digest = hashlib.sha256(data).hexdigest()
        path = self._path(digest)
        if not path.exists():
            with as_store_error("create", path.parent):
                path.parent.mkdir(mode=0o700, exist_ok=True)
            write_file(path, data, durable=durable)
        return digest

    def get(self, digest: str) -> bytes:
        """Return the bytes of a blob."""
        if not _DIGEST.fullmatch(digest):
            raise ValidationError(f"`{digest}` is not the digest of a blob", fields=("digest",))
        path = self._path(digest)
        try:
            with as_store_error("read", path):
                return path.read_bytes()
        except FileNotFoundError:
            raise StoreError(f"the store has no blob `{digest}`") from None

    def collect(self, used: Container[str]) -> int:
        """Remove blobs that are not used and not new; return how many."""
        removed = 0
        for folder in self._folder.iterdir() if self._folder.is_dir() else ():
            for path in folder.iterdir():
                is_old = time.time() - path.stat().st_mtime > _YOUNG
                if path.name not in used and is_old and _DIGEST.fullmatch(path.name):
                    with as_store_error("delete", path):
                        path.unlink(missing_ok=True)
                    removed += 1
        return removed

    def remove(self, digests: Iterable[str]) -> int:
        """Remove blobs, new ones as well; return how many there were."""
        removed = 0
        for digest in digests:
            path = self._path(digest)
            if _DIGEST.fullmatch(digest) and path.exists():
                with as_store_error("delete", path):
                    path.unlink(missing_ok=True)
                removed += 1
        return removed

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest


class ValueFiles:
    """The values of a store."""

    def __init__(self, layout: StoreLayout, now: Callable[[], datetime]) -> None:
        self._layout = layout
        self._folder = layout.base / "values"
        self._now = now

    def put(
        self, key: tuple[str, ...], data: bytes, *, expect: str | None, durable: bool
    ) -> StoredValue:
        """Replace a value, guarded by the version the caller has seen ("": there is none)."""
        check_key("", key)
        with self._layout.locked():
            stored = self.get(key)
            found = "" if stored is None else stored.version
            if expect is not None and found != expect:
                raise ConflictError(
                    f"the value {list(key)} has another version", expected=expect, found=found
                )
            header = _Header(key, new_record_id(), self._now())
            write_file(self._path(key), msgspec.json.encode(header) + b"\n" + data, durable=durable)
        return StoredValue(
            key=key, data=bytes(data), version=header.version, updated_at=header.updated_at
        )

    def get(self, key: tuple[str, ...]) -> StoredValue | None:
        """Return a value; None if there is none."""
        path = self._path(key)
        try:
            with as_store_error("read", path):
                content = path.read_bytes()
        except FileNotFoundError:
            return None
        line, _, data = content.partition(b"\n")
        try:
            header = _HEADER.decode(line)
        except msgspec.DecodeError as error:
            raise StoreError(f"`{path}` is not a value of the store: {error}") from error
        return StoredValue(
            key=header.key, data=data, version=header.version, updated_at=header.updated_at
        )

    def keys(self, prefix: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the keys that begin with a prefix, sorted."""
        return sorted(key for key in self._all_keys() if key[: len(prefix)] == prefix)

    def _all_keys(self) -> Iterator[tuple[str, ...]]:
        with (
            contextlib.suppress(FileNotFoundError),
            as_store_error("list", self._folder),
            os.scandir(self._folder) as entries,
        ):
            for entry in entries:
                if not entry.name.startswith("."):
                    with (
                        contextlib.suppress(msgspec.DecodeError, FileNotFoundError),
                        Path(entry.path).open("rb") as file,
                    ):
                        yield _HEADER.decode(file.readline()).key

    def delete(self, key: tuple[str, ...]) -> bool:
        """Delete a value; return False if there is none."""
        path = self._path(key)
        try:
            with as_store_error("delete", path):
                path.unlink()
        except FileNotFoundError:
            return False
        return True

    def _path(self, key: tuple[str, ...]) -> Path:
        return self._folder / digest_of(*key)
