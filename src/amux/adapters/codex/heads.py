"""Selects rollouts for a list by their first lines.

The first line holds the id, the start time, the folder and the parent of the session; in older
forks the next lines repeat those of its ancestors. Forks and sub-agents name their parent, so ids
suffice to find everything that affects a session, other copies of a parent that is gone included.
Only rollouts rewritten by `codex migrate-rollouts` have lost the parent's id: if there is one, all
rollouts are read. The migration generated the ids of all turns, so the first turn identifies it.

A list has to read a file whose first line has no start time or folder, and a document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain, islice, pairwise
from typing import BinaryIO, Final, NamedTuple, Protocol

from amux.adapters._base import ListFilter, Selection, SourceRef
from amux.adapters._kit.session_heads import HeadSelection, SessionHead
from amux.adapters._kit.streams import RawFile, open_stream
from amux.adapters.codex.lines import ENTRY, UNREADABLE, MetaEntry
from amux.adapters.codex.records import Meta
from amux.adapters.codex.rollout import Lineage, file_name
from amux.model.facts import Facts

_READ_SIZES: Final = (64 << 10, 256 << 10)  # instructions and skills precede the first turn
_LINES: Final = 3  # own and parent's metadata, and one more line
_MOST_LINES: Final = 32  # the metadata of further ancestors follows that of the parent
_META: Final = b'"session_meta"'
_ORDINAL: Final = b'"ordinal"'
_TURN: Final = b'"turn_id"'
_LINE_END: Final = re.compile(rb"\n")
_MIGRATED: Final = re.compile(rb'"turn_id"\s*:\s*"rollout-\d+"')


def select(sources: Sequence[SourceRef], list_filter: ListFilter) -> Selection | None:
    """Select what a list must read of all rollouts and titles; None for everything."""
    session_heads: list[SessionHead] = []
    for source in sources:
        head = read_head(source)
        if head.is_migrated:
            return None
        session_heads.append(session_head(source, head, listed=True))
    return HeadSelection(session_heads, list_filter, _Migrated(sources))


class _Migrated:
    """Relates a rollout that turns out to have been rewritten to all others."""

    def __init__(self, sources: Sequence[SourceRef]) -> None:
        self._sources = sources

    def related(
        self, source: SourceRef, facts: Facts, *, shown: bool
    ) -> Iterable[tuple[SourceRef, bool]]:
        """Return all sources for a rewritten rollout, else none."""
        del source, shown
        return [(source, True) for source in self._sources] if facts.unnamed_copies else ()


class Head(NamedTuple):
    """The `session_meta` of each of the first lines; None for other lines."""

    metas: Sequence[Meta | None] = ()
    is_migrated: bool = False


class _Bytes(Protocol):
    def next(self, size: int) -> bytes: ...


def read_head(source: SourceRef) -> Head:
    """Return the head of a log; it is empty for other files."""
    location = source.location
    if source.role == "names" or location.endswith(".json"):
        return Head()
    try:
        if location.endswith(".zst"):
            with open_stream(location) as stream:
                return _head_in(_DecompressedFile(stream))
        with RawFile(location) as file:
            return _head_in(file)
    except OSError:
        return Head()  # reading the file reports the error


class _DecompressedFile:
    """The bytes of a compressed log, read like a `RawFile`."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def next(self, size: int) -> bytes:
        """Return the next bytes; fewer than `size` only at the end."""
        return self._stream.read(size)


def _head_in(file: _Bytes) -> Head:
    data = b""
    metas: list[Meta | None] = []
    turn = -1
    for wanted in _READ_SIZES:
        data += file.next(wanted)
        metas = _metas_in(data)
        # Only lines with ordinals were ever rewritten.
        is_numbered = bool(metas) and data.find(_ORDINAL, 0, data.find(b"\n")) >= 0
        turn = data.find(_TURN, data.find(b"\n")) if is_numbered else 0
        if turn >= 0 and len(metas) >= _LINES and metas[-1] is None:
            break
    is_migrated = turn > 0 and _MIGRATED.match(data, turn) is not None
    return Head(metas, is_migrated)


def _metas_in(data: bytes) -> list[Meta | None]:
    """Return the metadata in the first lines, and in the lines after them up to another one."""
    metas: list[Meta | None] = []
    ends = (found.start() for found in islice(_LINE_END.finditer(data), _MOST_LINES))
    for start, end in pairwise(chain((0,), ends)):
        if len(metas) >= _LINES and metas[-1] is None:
            break
        try:  # a leading line break is ignored
            is_meta = data.find(_META, start, end) >= 0
            entry = ENTRY.decode(memoryview(data)[start:end]) if is_meta else None
        except UNREADABLE:
            entry = None
        metas.append(entry.payload if isinstance(entry, MetaEntry) else None)
    return metas


def session_head(source: SourceRef, head: Head, *, listed: bool) -> SessionHead:
    """Return the head of a source; for a list it is sufficient only with a start and a folder."""
    name = file_name(source.name)
    if source.role == "names":
        return SessionHead(source=source, session_id=name.stem, listed=False, told=False)
    if not head.metas or head.metas[0] is None:
        return SessionHead(source=source, session_id=name.thread_id, told=False)
    lineage = Lineage(name=name, session_id=name.thread_id)
    for number, meta in enumerate(filter(None, head.metas)):
        lineage.take(meta, first_line=not number, begun=bool(number))
    if listed and (lineage.created_at is None or not lineage.meta.cwd):
        return SessionHead(source=source, session_id=name.thread_id, told=False)
    prefix = None if lineage.prefix is None else lineage.prefix.of
    copied = (meta.id for meta in head.metas if meta is not None)
    names = (lineage.parent, lineage.rollout, *lineage.aliases, prefix, *copied)
    return SessionHead(
        source=source,
        session_id=lineage.session_id,
        created_at=lineage.created_at,
        cwd=lineage.meta.cwd,
        nested=lineage.kind == "subagent",
        names=tuple(name for name in names if name),
    )
