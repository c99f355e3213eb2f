"""Which transcripts bear on one that a list shows, told without reading them.

History is copied by resumes (to 1.0.11x) and by forks, often without a word about it. What is known
of copies:

- They lie in the folder of the original, and the copy stands first: the first answer of a copy is
  an answer of the original. So a file is a copy of one that was read if that has its first answer.
- A line is written into a file between the first and the last time in it. Copies keep the times,
  or (to 2.0.14) have that of the copying and no request id. So whoever has the first answer of a
  file was at work when it was given or, where it has no request id, began before. In those few the
  answer is searched for.
- A title for a line of another session is written after that line.

A copy bears on its original, too: it may have the final figures of a call.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from math import inf

from msgspec import UNSET

from amux.adapters._base import Choice, Question, SourceRef
from amux.adapters._claude.heads import (
    MAY_BE_TITLE,
    UNKNOWN,
    Answer,
    Beginning,
    answer_of,
    begin_of,
    last_time,
)
from amux.adapters._claude.outcome import own_id
from amux.adapters._kit.pieces import Pieces
from amux.adapters._kit.sketches import FileChoice, Sketch
from amux.model.facts import Facts
from amux.model.trace import key_of


def choose(sources: Sequence[SourceRef], question: Question) -> Choice:
    """What a list has to read of all transcripts and titles."""
    beginnings = [begin_of(source) for source in sources if source.role != "names"]
    titles = [
        Sketch(source=source, session_id=own_id(source), listed=False)
        for source in sources
        if source.role == "names"
    ]
    sketches = [*(one.sketch for one in beginnings), *titles]
    return FileChoice(sketches, question, ClaudeKinship(beginnings))


class ClaudeKinship:
    """Copies, originals and titles of sessions that were read."""

    def __init__(self, beginnings: Iterable[Beginning]) -> None:
        self._by_place: dict[str, Beginning] = {}
        self._groups: dict[str, _Group] = {}
        for one in beginnings:
            if not one.sketch.nested:
                self._by_place[one.sketch.source.place] = one
                self._groups.setdefault(one.sketch.source.group, _Group()).add(one)

    def related(
        self, source: SourceRef, facts: Facts, *, shown: bool
    ) -> Iterator[tuple[SourceRef, bool]]:
        """Copies of its answers and whose copies its own are, then those with a title for it."""
        own = self._by_place.get(source.place)
        if own is None or not facts.unnamed_copies:
            return
        group = self._groups[source.group]
        for one in group.copies_of(own, facts.identity):
            yield one.sketch.source, True
        for one in group.originals_of(own):
            yield one.sketch.source, True
        if shown and facts.name is None:
            for one in group.titling(own, facts):
                yield one.sketch.source, False


class _Group:
    """The transcripts of one project."""

    def __init__(self) -> None:
        self._members: list[Beginning] = []
        self._unseen: list[Beginning] = []  # whose first answer was not looked for
        self._by_answer: dict[int, list[Beginning]] = {}
        self._by_leaf: dict[int, list[Beginning]] = {}

    def add(self, one: Beginning) -> None:
        """Enter a transcript."""
        self._members.append(one)
        if one.answer is UNSET:
            self._unseen.append(one)
        elif one.answer is not None:
            self._by_answer.setdefault(key_of(one.answer.id), []).append(one)
        for leaf in one.leaves:
            self._by_leaf.setdefault(leaf, []).append(one)

    def copies_of(self, original: Beginning, identity: bytes) -> Iterator[Beginning]:
        """Transcripts that begin with an answer of this one."""
        keys = set(array("q", identity))
        for key in self._by_answer.keys() & keys:
            yield from self._by_answer[key]
        first = -inf if original.earliest is None else original.earliest
        for one in self._unseen:
            if one.earliest is None or first <= one.earliest <= _end(original):
                answer = answer_of(one)
                if answer is UNKNOWN or (answer is not None and key_of(answer.id) in keys):
                    yield one

    def originals_of(self, copy: Beginning) -> Iterator[Beginning]:
        """Transcripts that have the answer with which this one begins."""
        answer = answer_of(copy)
        if answer is None:
            return
        id = answer.id.encode("utf-8", "replace")
        for one in self._while_at_work(answer):
            if one is not copy and id in _bytes_of(one):
                yield one

    def _while_at_work(self, answer: Answer) -> Iterator[Beginning]:
        at = inf if answer.at is None else answer.at
        ends_later = at if answer.has_request and answer.at is not None else -inf
        for one in self._members:
            if one.earliest is None or (one.earliest <= at and _end(one) >= ends_later):
                yield one

    def titling(self, own: Beginning, facts: Facts) -> Iterator[Beginning]:
        """Transcripts that may hold a title for a line of a session."""
        if self._by_leaf:
            for key in self._by_leaf.keys() & set(facts.trace.key_list()):
                yield from self._by_leaf[key]
        began = -inf if facts.created_at is None else facts.created_at.timestamp()
        for one in self._members:
            if one is not own and _end(one) >= began and _has_late_titles(one):
                yield one


def _end(one: Beginning) -> float:
    if one.end is None:
        try:
            with Pieces(one.sketch.source.place) as file:
                one.end = last_time(file)
        except OSError:
            one.end = inf  # whoever reads it will tell
    return one.end


def _has_late_titles(one: Beginning) -> bool:
    """Whether there may be titles behind its head, where resuming in place leaves them."""
    if one.has_late_titles is None:
        one.has_late_titles = _bytes_of(one).find(MAY_BE_TITLE, one.size) >= 0
    return one.has_late_titles


def _bytes_of(one: Beginning) -> bytes:
    try:
        return one.sketch.source.path.read_bytes()
    except OSError:
        return b""  # reading it would tell no more
