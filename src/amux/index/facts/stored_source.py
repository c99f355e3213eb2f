"""Reads one source for the index: from its checkpoint if possible, otherwise as a whole."""

from __future__ import annotations

import os
import time
from _blake2 import blake2b  # `hashlib` would load OpenSSL
from collections.abc import Callable
from typing import Final

import msgspec

from amux._version import __version__
from amux.adapters._base import Adapter, Checkpoint, Reading, Resumable, SourceRef
from amux.index.codec import pack, unpack
from amux.index.errors import IndexDecodeError
from amux.index.facts.clusters import SourceKeys, source_keys
from amux.model.facts import Facts
from amux.model.problems import Problem
from amux.model.trace import Trace
from amux.reading.facts import collect
from amux.reading.fingerprint import Fingerprints

_DIGEST_BYTES: Final = 256
GROWS_NS: Final = 14 * 24 * 3600 * 10**9
"""A log that was not written to for this long rarely grows any more."""

_LARGE: Final = 1 << 20


def reader_version(adapter: Adapter) -> str:
    """Return the version of an adapter; facts that another version has read are not used."""
    origin: str = getattr(adapter, "origin", "")  # an adapter of another package
    return f"{__version__}/{adapter.info.revision}{origin}"


class _StoredFacts(msgspec.Struct, frozen=True, array_like=True):
    facts: tuple[Facts, ...]
    problems: tuple[Problem, ...]


_DECODER: Final = msgspec.msgpack.Decoder(_StoredFacts)
_KEYS: Final = msgspec.msgpack.Decoder(tuple[bytes, ...])


class StoredSource(msgspec.Struct, frozen=True, array_like=True):
    """One source as the index stores it. `lines` are the keys of its lines, which facts omit."""

    size: int  # bytes of its own file
    fingerprint: bytes
    digest: bytes  # of facts and lines
    keys: SourceKeys
    facts: bytes
    lines: bytes
    offset: int = 0
    prefix_digest: bytes = b""
    state: bytes = b""
    result: bytes = b""  # built while reading, for its cluster


BuildSingleSourceResult = Callable[[SourceRef, tuple[Facts, ...], tuple[Problem, ...]], bytes]
"""Builds the encoded cluster result of a source that no other source affects."""


class StoredCheckpoint(msgspec.Struct, frozen=True):
    """The checkpoint of an append-only source, and the digest of the bytes before it."""

    checkpoint: Checkpoint
    prefix_digest: bytes


class SourceReader:
    """Reads the sources of one adapter."""

    def __init__(
        self,
        adapter: Adapter,
        *,
        build_result: BuildSingleSourceResult | None = None,
        fingerprints: Fingerprints | None = None,
    ) -> None:
        self._adapter = adapter
        self._fingerprints = fingerprints or Fingerprints(adapter)
        self._build_result = build_result
        # Checking the protocol every time would take as long as reading a small source.
        self._resumable = adapter if isinstance(adapter, Resumable) else None

    def whole(self, source: SourceRef, *, checkpoint: bool = False) -> Reading:
        """Read a source from its start, with a checkpoint if asked for: creating one takes time."""
        if checkpoint and self._resumable is not None:
            return self._resumable.resume_read(source, checkpoint=None)
        return collect(self._adapter.read(source, want="facts"))

    def stored_source(
        self, source: SourceRef, stored: StoredCheckpoint | None = None
    ) -> StoredSource:
        """Read a source, from its stored checkpoint if possible."""
        before = self._fingerprints.of(source)  # taken first: later writes count as changes
        # Storing the state of a reader takes time, and a small log is read again in milliseconds.
        may_grow = before.size >= _LARGE and before.changed_ns > time.time_ns() - GROWS_NS
        reading = self._read(source, stored, may_grow=may_grow)
        checkpoint = reading.checkpoint if may_grow else None
        without_lines = tuple(_with_lines(each, b"") for each in reading.facts)
        facts = pack(_StoredFacts(without_lines, reading.problems))
        lines = msgspec.msgpack.encode([each.trace.keys for each in reading.facts])
        build = self._build_result
        return StoredSource(
            size=before.size,
            fingerprint=before.stored,
            digest=blake2b(facts + lines, digest_size=16).digest(),
            keys=source_keys(reading.facts),
            facts=facts,
            lines=lines,
            offset=0 if checkpoint is None else checkpoint.offset,
            prefix_digest=b"" if checkpoint is None else prefix_digest(source, checkpoint.offset),
            state=b"" if checkpoint is None else checkpoint.state,
            result=b"" if build is None else build(source, reading.facts, reading.problems),
        )

    def _read(
        self, source: SourceRef, stored: StoredCheckpoint | None, *, may_grow: bool
    ) -> Reading:
        # If the file still begins as it did, the stored facts of this beginning are valid.
        is_intact = (
            stored is not None
            and stored.prefix_digest
            and prefix_digest(source, stored.checkpoint.offset) == stored.prefix_digest
        )
        if stored is not None and is_intact and self._resumable is not None:
            return self._resumable.resume_read(source, checkpoint=stored.checkpoint)
        return self.whole(source, checkpoint=may_grow)


def decode_stored_source(
    facts: bytes, lines: bytes
) -> tuple[tuple[Facts, ...], tuple[Problem, ...]]:
    """Return the facts and problems of a stored source."""
    stored = unpack(facts, _DECODER)
    keys = unpack(lines, _KEYS)
    if len(keys) != len(stored.facts):
        raise IndexDecodeError("facts and lines do not belong together")
    pairs = zip(stored.facts, keys, strict=True)
    return tuple(_with_lines(each, keys) for each, keys in pairs), stored.problems


def line_keys(lines: bytes) -> bytes:
    """Return the keys of all lines of a source as one array."""
    keys = unpack(lines, _KEYS)
    return b"".join(keys)


def _with_lines(facts: Facts, keys: bytes) -> Facts:
    if facts.trace.keys == keys:
        return facts
    trace = Trace(keys=keys, times=facts.trace.times, kinds=facts.trace.kinds)
    return msgspec.structs.replace(facts, trace=trace)


def prefix_digest(source: SourceRef, offset: int) -> bytes:
    """Return a digest of the inode, the first 256 bytes and the 256 bytes before `offset`.

    Equal digests mean that the file was only appended to. b"" if it is missing or shorter than
    `offset`.
    """
    if not source.has_path:
        return b""
    try:
        with open(source.location, "rb", buffering=0) as file:  # noqa: PTH123 - for every source
            found = os.fstat(file.fileno())
            if found.st_size < offset:
                return b""
            head = file.read(min(_DIGEST_BYTES, offset))
            file.seek(max(0, offset - _DIGEST_BYTES))
            tail = file.read(min(_DIGEST_BYTES, offset))
    except (OSError, ValueError):
        return b""
    return blake2b(b"%d " % found.st_ino + head + tail, digest_size=16).digest()
