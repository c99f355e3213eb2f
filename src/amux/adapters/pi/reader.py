"""Reads one session out of its lines: once for the rules, once more for the bodies.

Which branch is current is known only at the end, so bodies need a second pass; it looks at the
lines the first one has chosen, and nothing that was written since then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from amux.adapters._base import Head, Item, Want, has_bodies
from amux.adapters._kit.jsonl import no_session, read_records
from amux.adapters._kit.samples import Pool
from amux.adapters._kit.values import text
from amux.adapters.pi.about import Writer
from amux.adapters.pi.bodies import Bodies, Json, Place
from amux.adapters.pi.log import Origin, SessionLog
from amux.adapters.pi.records import BODIES, FILE_SHIFT, LINES, Entry, LineSource, T
from amux.model.message import SessionMessage
from amux.model.problems import Problem
from amux.model.trace import LineKind

_LARGEST_RECORD: Final = 16 << 10  # of another branch, as bytes of JSON
_ALL_RECORDS: Final = 256 << 10


class FileLines:
    """The lines of one or more files; those of further files have numbers beyond all others."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths

    def decode(
        self, decoder: msgspec.json.Decoder[T], *, cut_texts: bool
    ) -> Iterator[tuple[int, T | Problem]]:
        """Go through all lines."""
        for index, path in enumerate(self._paths):
            offset = index << FILE_SHIFT
            for found in read_records(path, decoder, cut_texts=cut_texts):
                if isinstance(found, Problem):
                    yield offset + (found.line or 0), found
                else:
                    yield offset + found[0], found[1]


def read_log(
    lines: LineSource,
    origin: Origin,
    *,
    want: Want,
    blobs: Path | None = None,
    only_by: Writer | None = None,
) -> Iterator[Item]:
    """Head, messages, calls, facts of one log; problems first.

    `only_by`: in a place that several agents share, a log that is clearly another's is no session.
    """
    log = SessionLog(origin)
    for number, found in lines.decode(LINES, cut_texts=True):
        if isinstance(found, Problem):
            log.note(found)
        else:
            log.take(Entry(number, found))
    if only_by is not None and log.about.writer not in {None, only_by}:
        return
    log.finish()
    if log.about.is_newer_than_known:
        yield from log.problems
        return
    if not log.is_session:
        yield from log.problems
        yield from no_session(log.origin.path, log.problems)
        return
    if want != "usage":
        _keep_as_they_stand(lines, log)
    facts = log.facts()
    yield Head(session_id=facts.session_id)
    yield from log.problems
    if has_bodies(want):
        bodies = Bodies(blobs=blobs, is_linear=log.about.has_header and not log.about.version)
        yield from _messages(lines, log, bodies, cut_texts=want != "all")
    yield from facts.calls
    yield facts


def _keep_as_they_stand(lines: LineSource, log: SessionLog) -> None:
    """What is in no message: branches that are not shown, and lines that are not understood."""
    elsewhere, strange = log.elsewhere(), log.about.strange
    if not elsewhere and not strange:
        return
    pool = Pool(largest=_LARGEST_RECORD, total=_ALL_RECORDS)
    for number, record in _chosen(lines, elsewhere | strange, cut_texts=True):
        if number in strange:
            log.about.unknown.keep(record)
        kept = pool.take(record) if number in elsewhere else None
        if kept is not None:
            log.records[number] = kept


def _messages(
    lines: LineSource, log: SessionLog, bodies: Bodies, *, cut_texts: bool
) -> Iterator[SessionMessage]:
    """The messages of the current branch.

    Where it does not follow the order of lines, as it may across files, they are held back.
    """
    wanted = log.messages()
    numbers = [number for _, number, _ in wanted]
    found = _chosen(lines, set(numbers), cut_texts=cut_texts)
    if numbers != sorted(numbers):
        held = dict(found)
        found = iter([(number, held.get(number, {})) for number in numbers])
    calls = log.calls_by_message()
    parent: str | None = None
    for (position, number, mark), line in zip(wanted, _in_step(found, numbers), strict=True):
        name = log.message_id(position, text(line.get("id")), number)
        call = calls.get(name) if mark is LineKind.REPLY else None
        place = Place(id=name, parent_id=parent, mark=mark, call=call)
        yield bodies.message(line, place)
        parent = name


def _chosen(lines: LineSource, numbers: set[int], *, cut_texts: bool) -> Iterator[tuple[int, Json]]:
    for number, found in lines.decode(BODIES, cut_texts=cut_texts):
        if number in numbers:
            yield number, {} if isinstance(found, Problem) else found


def _in_step(found: Iterator[tuple[int, Json]], numbers: Sequence[int]) -> Iterator[Json]:
    """One line for every number; an empty one where it cannot be read a second time."""
    ahead = next(found, None)
    for number in numbers:
        if ahead is not None and ahead[0] == number:
            yield ahead[1]
            ahead = next(found, None)
        else:
            yield {}
