"""Selects rollouts by their first lines.

The first line holds the id, the start time, the folder and the parent of the session; in older
forks the second line repeats the parent's. Forks and sub-agents name their parent, so ids suffice
to find everything that affects a session. Only rollouts rewritten by `codex migrate-rollouts` have
lost the parent's id: if there is one, all rollouts are read. The migration generated the ids of all
turns, so the first turn identifies it.

Files other than plain logs in the newest format (a document, a compressed log, a first line without
a folder or in another format) give no information.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice, pairwise
from typing import Final, NamedTuple

from amux.adapters._base import ListFilter, Selection, SourceRef
from amux.adapters._kit.session_heads import HeadSelection, SessionHead
from amux.adapters._kit.streams import RawFile
from amux.adapters.codex.lines import ENTRY, UNREADABLE, MetaEntry
from amux.adapters.codex.records import Meta
from amux.adapters.codex.rollout import Lineage, file_name
from amux.model.facts import Facts

_READ_SIZES: Final = (64 << 10, 256 << 10)  # instructions and skills precede the first turn
_LINES: Final = 3  # own and parent's metadata, and one more line
_META: Final = b'"session_meta"'
_ORDINAL: Final = b'"ordinal"'
_TURN: Final = b'"turn_id"'
_LINE_END: Final = re.compile(rb"\n")
_MIGRATED: Final = re.compile(rb'"turn_id"\s*:\s*"rollout-\d+"')


def select(sources: Sequence[SourceRef], list_filter: ListFilter) -> Selection | None:
    """Select what a list must read of all rollouts and titles; None for everything."""
    session_heads: list[SessionHead] = []
    for source in sources:
        head = _read_head(source)
        if head.is_migrated:
            return None
        session_heads.append(_session_head(source, head.metas))
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


class _Head(NamedTuple):
    """The `session_meta` of each of the first lines; None for other lines."""

    metas: Sequence[Meta | None] = ()
    is_migrated: bool = False


def _read_head(source: SourceRef) -> _Head:
    """Return the head of a plain log; it is empty for other files."""
    if source.role == "names" or not source.location.endswith(".jsonl"):
        return _Head()
    data = b""
    ends: list[int] = []
    turn = -1
    try:
        with RawFile(source.location) as file:
            for wanted in _READ_SIZES:
                data += file.next(wanted)
                ends = [found.start() for found in islice(_LINE_END.finditer(data), _LINES)]
                # Only lines with ordinals were ever rewritten.
                is_numbered = bool(ends) and data.find(_ORDINAL, 0, ends[0]) >= 0
                turn = data.find(_TURN, ends[0]) if is_numbered else 0
                if turn >= 0 and len(ends) == _LINES:
                    break
    except OSError:
        return _Head()  # reading the file reports the error
    metas: list[Meta | None] = []
    for start, end in pairwise((0, *ends)):
        try:  # a leading line break is ignored
            is_meta = data.find(_META, start, end) >= 0
            entry = ENTRY.decode(memoryview(data)[start:end]) if is_meta else None
        except UNREADABLE:
            entry = None
        metas.append(entry.payload if isinstance(entry, MetaEntry) else None)
    return _Head(metas, turn > 0 and _MIGRATED.match(data, turn) is not None)


def _session_head(source: SourceRef, metas: Sequence[Meta | None]) -> SessionHead:
    name = file_name(source.name)
    unknown = SessionHead(source=source, session_id=name.thread_id, told=False)
    if source.role == "names":
        return SessionHead(source=source, session_id=name.stem, listed=False, told=False)
    if not metas or metas[0] is None:
        return unknown
    lineage = Lineage(name=name, session_id=name.thread_id)
    for number, meta in enumerate(filter(None, metas)):
        lineage.take(meta, first_line=not number, begun=bool(number))
    if lineage.created_at is None or not lineage.meta.cwd:
        return unknown
    prefix = None if lineage.prefix is None else lineage.prefix.of
    names = (lineage.parent, lineage.rollout, *lineage.aliases, prefix)
    return SessionHead(
        source=source,
        session_id=lineage.session_id,
        created_at=lineage.created_at,
        cwd=lineage.meta.cwd,
        nested=lineage.kind == "subagent",
        names=tuple(name for name in names if name),
    )
