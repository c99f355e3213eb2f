"""Reading one source for the index: from where it was left, else as a whole."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from enum import IntEnum
from hashlib import blake2b
from typing import Final, Literal

import msgspec

from amux._version import __version__
from amux.adapters._base import Adapter, Item, Progress, Reading, Resumable, SourceRef
from amux.index.encoding import pack, unpack
from amux.index.faults import UndecodableError
from amux.index.links import Links, links_of
from amux.index.stamps import stamp
from amux.model.facts import Facts
from amux.model.problems import Problem
from amux.model.trace import Trace

_EDGE: Final = 256
_GROWS_S: Final = 14 * 24 * 3600


def maker_of(adapter: Adapter) -> str:
    """Who reads: what another version of amux or of the adapter made of a source does not count."""
    return f"{__version__}/{adapter.info.revision}"


class Depth(IntEnum):
    """How much of a source was read; more includes less."""

    USAGE = 1
    FACTS = 2

    @property
    def want(self) -> Literal["usage", "facts"]:
        """The same as adapters call it."""
        return "usage" if self is Depth.USAGE else "facts"


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    facts: tuple[Facts, ...]
    problems: tuple[Problem, ...]


_DECODER: Final = msgspec.msgpack.Decoder(_Kept)
_KEYS: Final = msgspec.msgpack.Decoder(tuple[bytes, ...])


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of one source. `lines` are the keys of its lines, apart from the other facts."""

    stamp: bytes
    digest: bytes  # of all that is kept
    depth: int
    links: Links
    facts: bytes
    lines: bytes
    offset: int = 0
    edge: bytes = b""
    state: bytes = b""


class Left(msgspec.Struct, frozen=True):
    """Where an append-only source was left, and what stood around that place."""

    progress: Progress
    edge: bytes


def read_facts(adapter: Adapter, source: SourceRef, want: Literal["usage", "facts"]) -> Reading:
    """The whole source."""
    if isinstance(adapter, Resumable):
        return adapter.read_on(source, want=want, progress=None)
    return collect(adapter.read(source, want=want))


def collect(items: Iterable[Item]) -> Reading:
    """The facts among some items; problems that they tell of themselves are not told twice."""
    facts: list[Facts] = []
    loose: list[Problem] = []
    for item in items:
        if isinstance(item, Facts):
            facts.append(item)
        elif isinstance(item, Problem):
            loose.append(item)
    told = {problem for each in facts for problem in each.problems}
    return Reading(
        facts=tuple(facts), problems=tuple(problem for problem in loose if problem not in told)
    )


def read_entry(adapter: Adapter, source: SourceRef, depth: Depth, left: Left | None) -> Entry:
    """Read what there is to read and make it fit to be kept."""
    mark = stamp(source)  # before reading: what is written meanwhile is a later change
    if left is not None and isinstance(adapter, Resumable) and _is_intact(source, left):
        reading = adapter.read_on(source, want=depth.want, progress=left.progress)
    else:
        reading = read_facts(adapter, source, depth.want)
    if depth is Depth.USAGE and any(not each.calls for each in reading.facts):
        # Which model a session without calls names is no usage, but is counted all the same.
        depth, reading = Depth.FACTS, read_facts(adapter, source, "facts")
    progress = reading.progress if _may_grow(source) else None
    facts, lines = _encode(reading)
    return Entry(
        stamp=mark,
        digest=blake2b(facts + lines, digest_size=16).digest(),
        depth=depth,
        links=links_of(reading.facts),
        facts=facts,
        lines=lines,
        offset=0 if progress is None else progress.offset,
        edge=b"" if progress is None else edge_of(source, progress.offset),
        state=b"" if progress is None else progress.state,
    )


def _may_grow(source: SourceRef) -> bool:
    """Whether it was written to lately; older ones rarely grow, and keeping their state costs."""
    try:
        return source.path.stat().st_mtime > time.time() - _GROWS_S
    except OSError:
        return False


def _encode(reading: Reading) -> tuple[bytes, bytes]:
    kept = _Kept(tuple(_without_lines(each) for each in reading.facts), reading.problems)
    lines = [each.trace.keys for each in reading.facts]
    return pack(kept), msgspec.msgpack.encode(lines)


def decode_entry(facts: bytes, lines: bytes) -> tuple[tuple[Facts, ...], tuple[Problem, ...]]:
    """What was kept of a source."""
    kept = unpack(facts, _DECODER)
    keys = unpack(lines, _KEYS)
    if len(keys) != len(kept.facts):
        raise UndecodableError("facts and lines do not belong together")
    pairs = zip(kept.facts, keys, strict=True)
    return tuple(_with_lines(each, keys) for each, keys in pairs), kept.problems


def line_keys(lines: bytes) -> bytes:
    """The keys of all lines of a source in a row."""
    keys = unpack(lines, _KEYS)
    return b"".join(keys)


def _without_lines(facts: Facts) -> Facts:
    return facts if not facts.trace.keys else _with_lines(facts, b"")


def _with_lines(facts: Facts, keys: bytes) -> Facts:
    trace = Trace(keys=keys, times=facts.trace.times, marks=facts.trace.marks)
    return msgspec.structs.replace(facts, trace=trace)


def _is_intact(source: SourceRef, left: Left) -> bool:
    """Whether the file still begins as it did: then what was read of it still holds."""
    return bool(left.edge) and edge_of(source, left.progress.offset) == left.edge


def edge_of(source: SourceRef, offset: int) -> bytes:
    """A mark of a file: its inode, its beginning and the bytes before a place; b"": it is gone."""
    try:
        with open(source.path, "rb", buffering=0) as file:  # noqa: PTH123 - called for every source
            found = os.fstat(file.fileno())
            if found.st_size < offset:
                return b""
            head = file.read(min(_EDGE, offset))
            file.seek(max(0, offset - _EDGE))
            tail = file.read(min(_EDGE, offset))
    except (OSError, ValueError):
        return b""
    return blake2b(b"%d " % found.st_ino + head + tail, digest_size=16).digest()


def total_size(sources: Iterable[SourceRef]) -> int:
    """How many bytes there are to read; what cannot be asked counts as nothing."""
    size = 0
    for source in sources:
        try:
            size += source.path.stat().st_size
        except OSError:
            continue
    return size
