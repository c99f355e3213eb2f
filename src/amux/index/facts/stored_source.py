"""Reading one source for the index: from where it was left, else as a whole."""

from __future__ import annotations

import os
import time
from _blake2 import blake2b  # `hashlib` would load OpenSSL
from collections.abc import Callable
from enum import IntEnum
from typing import Final, Literal

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
from amux.reading.fingerprint import Fingerprint, Fingerprints

_DIGEST_BYTES: Final = 256
GROWS_NS: Final = 14 * 24 * 3600 * 10**9
"""A log that nobody has written to for so long rarely grows any more."""

_LARGE: Final = 1 << 20


def reader_version(adapter: Adapter) -> str:
    """Who reads: what another version of amux or of the adapter made of a source does not count."""
    origin: str = getattr(adapter, "origin", "")  # an adapter of another package
    return f"{__version__}/{adapter.info.revision}{origin}"


class Depth(IntEnum):
    """How much of a source was read; more includes less."""

    USAGE = 1
    FACTS = 2

    @property
    def want(self) -> Literal["usage", "facts"]:
        """The same as adapters call it."""
        return "usage" if self is Depth.USAGE else "facts"


class _StoredFacts(msgspec.Struct, frozen=True, array_like=True):
    facts: tuple[Facts, ...]
    problems: tuple[Problem, ...]


_DECODER: Final = msgspec.msgpack.Decoder(_StoredFacts)
_KEYS: Final = msgspec.msgpack.Decoder(tuple[bytes, ...])


class StoredSource(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of one source. `lines` are the keys of its lines, apart from the other facts."""

    size: int  # bytes of its own file
    fingerprint: bytes
    digest: bytes  # of all that is kept
    depth: int
    links: SourceKeys
    facts: bytes
    lines: bytes
    offset: int = 0
    prefix_digest: bytes = b""
    state: bytes = b""
    result: bytes = b""  # what comes of it by itself; not kept here


BuildSingleSourceResult = Callable[[SourceRef, tuple[Facts, ...], tuple[Problem, ...]], bytes]
"""What comes of a source if no other bears on it."""


class StoredCheckpoint(msgspec.Struct, frozen=True):
    """Where an append-only source was left, and what stood around that place."""

    checkpoint: Checkpoint
    prefix_digest: bytes


class SourceReader:
    """Reads the sources of one adapter."""

    def __init__(
        self,
        adapter: Adapter,
        *,
        alone: BuildSingleSourceResult | None = None,
        fingerprints: Fingerprints | None = None,
    ) -> None:
        self._adapter = adapter
        self._fingerprints = fingerprints or Fingerprints(adapter)
        self._alone = alone
        # Looking for its methods every time would take as long as reading a small source.
        self._resumable = adapter if isinstance(adapter, Resumable) else None

    def whole(
        self, source: SourceRef, want: Literal["usage", "facts"], *, leave: bool = False
    ) -> Reading:
        """All that a source says; `leave`: and where to go on, which takes time to write down."""
        if leave and self._resumable is not None:
            return self._resumable.resume_read(source, want=want, checkpoint=None)
        return collect(self._adapter.read(source, want=want))

    def stored_source(
        self, source: SourceRef, depth: Depth, left: StoredCheckpoint | None = None
    ) -> StoredSource:
        """Read what there is to read and make it fit to be kept."""
        before = self._fingerprints.of(source)  # what is written meanwhile is a later change
        leave = _deserves_checkpoint(before)
        depth, reading = self._read(source, depth, left, leave=leave)
        checkpoint = reading.checkpoint if leave else None
        facts, lines = _encode(reading)
        return StoredSource(
            size=before.size,
            fingerprint=before.stored,
            digest=blake2b(facts + lines, digest_size=16).digest(),
            depth=depth,
            links=source_keys(reading.facts),
            facts=facts,
            lines=lines,
            offset=0 if checkpoint is None else checkpoint.offset,
            prefix_digest=b"" if checkpoint is None else prefix_digest(source, checkpoint.offset),
            state=b"" if checkpoint is None else checkpoint.state,
            result=self._alone(source, reading.facts, reading.problems) if self._alone else b"",
        )

    def _read(
        self, source: SourceRef, depth: Depth, left: StoredCheckpoint | None, *, leave: bool
    ) -> tuple[Depth, Reading]:
        """What a source says, and how deep it was read."""
        if left is not None and self._resumable is not None and _is_intact(source, left):
            reading = self._resumable.resume_read(
                source, want=depth.want, checkpoint=left.checkpoint
            )
        else:
            reading = self.whole(source, depth.want, leave=leave)
        if depth is Depth.USAGE and any(not each.calls for each in reading.facts):
            # Which model a session without calls names is no usage, but is counted all the same.
            return Depth.FACTS, self.whole(source, "facts", leave=leave)
        return depth, reading


def _deserves_checkpoint(source: Fingerprint) -> bool:
    """Whether it may grow, and reading on will then save something: keeping its state costs.

    Old logs rarely grow, and a small one is read again in milliseconds.
    """
    return source.size >= _LARGE and source.changed_ns > time.time_ns() - GROWS_NS


def _encode(reading: Reading) -> tuple[bytes, bytes]:
    kept = _StoredFacts(tuple(_without_lines(each) for each in reading.facts), reading.problems)
    lines = [each.trace.keys for each in reading.facts]
    return pack(kept), msgspec.msgpack.encode(lines)


def decode_stored_source(
    facts: bytes, lines: bytes
) -> tuple[tuple[Facts, ...], tuple[Problem, ...]]:
    """What was kept of a source."""
    kept = unpack(facts, _DECODER)
    keys = unpack(lines, _KEYS)
    if len(keys) != len(kept.facts):
        raise IndexDecodeError("facts and lines do not belong together")
    pairs = zip(kept.facts, keys, strict=True)
    return tuple(_with_lines(each, keys) for each, keys in pairs), kept.problems


def line_keys(lines: bytes) -> bytes:
    """The keys of all lines of a source in a row."""
    keys = unpack(lines, _KEYS)
    return b"".join(keys)


def _without_lines(facts: Facts) -> Facts:
    return facts if not facts.trace.keys else _with_lines(facts, b"")


def _with_lines(facts: Facts, keys: bytes) -> Facts:
    trace = Trace(keys=keys, times=facts.trace.times, kinds=facts.trace.kinds)
    return msgspec.structs.replace(facts, trace=trace)


def _is_intact(source: SourceRef, left: StoredCheckpoint) -> bool:
    """Whether the file still begins as it did: then what was read of it still holds."""
    return (
        bool(left.prefix_digest)
        and prefix_digest(source, left.checkpoint.offset) == left.prefix_digest
    )


def prefix_digest(source: SourceRef, offset: int) -> bytes:
    """A mark of a file: its inode, its beginning and the bytes before a place; b"": it is gone."""
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
