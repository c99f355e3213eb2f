"""Choosing among files of one session each, by what their heads tell.

A sketch is what the head of a file says for sure. What a list can show, by its filters, order and
limit, is read whole, with every file that bears on it: files that share a name with it, by their
heads or by what was read, and those an agent's own rules relate to it. A file whose head does not
tell, and a session that lies in several files, is read whatever is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from amux.adapters._base import Chosen, Question, SourceRef, Unread
from amux.model.facts import Facts
from amux.model.places import plain_place


class Sketch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the head of a file tells; all of it is exactly what its facts will say."""

    source: SourceRef
    session_id: str
    listed: bool = True  # False: nothing a list shows, such as a title
    told: bool = True  # False: it has to be read to be known
    created_at: datetime | None = None
    cwd: str | None = None
    nested: bool = False
    names: tuple[str, ...] = ()  # of sessions it belongs to or comes from, and other names of it


class Kinship(Protocol):
    """Which files bear on each other beyond the names in their heads."""

    def related(
        self, source: SourceRef, facts: Facts, *, shown: bool
    ) -> Iterable[tuple[SourceRef, bool]]:
        """Files that bear on a session that was read; of each, whether others do on it in turn.

        `shown`: its row may be seen, so its title matters as well.
        """
        ...


class FileChoice:
    """A choice among files."""

    def __init__(
        self, sketches: Sequence[Sketch], question: Question, kinship: Kinship | None = None
    ) -> None:
        self._question = question
        self._kinship = kinship
        self._by_source = {sketch.source: sketch for sketch in sketches}
        self._families = _Families(sketches)
        self._read: set[SourceRef] = set()
        self._shown: set[SourceRef] = set()
        self._ends: set[SourceRef] = set()  # read for themselves alone

    def first(self) -> Chosen:
        """What may be shown, what does not tell, and their families."""
        question = self._question
        twice = self._families.several()
        unclear = [s for s in self._by_source.values() if not s.told or s.source in twice]
        clear = (s for s in self._by_source.values() if s.told and s.source not in twice)
        fitting = [s for s in clear if self._fits(s) and self._is_within_bound(s)]
        by_id = sorted(fitting, key=lambda sketch: sketch.session_id)
        shown = sorted(by_id, key=_began, reverse=question.descending)[: question.limit]
        self._shown.update(sketch.source for sketch in (*unclear, *shown))
        names = {sketch.session_id for sketch in (*unclear, *shown)} | question.named
        return self._choose([*self._shown, *self._families.of(names)])

    def more(self, read: Sequence[tuple[SourceRef, Facts]]) -> Chosen:
        """The families of what was read, as its facts name them, and its further relations."""
        found: list[SourceRef] = []
        ends: list[SourceRef] = []
        for source, facts in read:
            if source in self._ends:
                continue
            found += self._families.of(_names(facts))
            if self._kinship is not None:
                shown = source in self._shown
                for other, goes_on in self._kinship.related(source, facts, shown=shown):
                    (found if goes_on else ends).append(other)
        chosen = self._choose(found)
        alone = self._choose(ends)
        self._ends.update(alone)
        return {**chosen, **alone}

    def unread(self) -> Unread:
        """Those that fit, by the reason why they are not shown."""
        left = (s for s in self._by_source.values() if s.source not in self._read and self._fits(s))
        counts = Counter(self._place(sketch) or "more" for sketch in left)
        return Unread(*(counts[place] for place in Unread._fields))

    def _choose(self, sources: Iterable[SourceRef]) -> dict[SourceRef, Sequence[str]]:
        fresh = [s for s in dict.fromkeys(sources) if s not in self._read]
        self._read.update(fresh)
        return {source: (self._by_source[source].session_id,) for source in fresh}

    def _fits(self, sketch: Sketch) -> bool:
        question, at = self._question, sketch.created_at
        if not sketch.listed or not sketch.told or at is None:
            return False
        if question.cwd is not None:
            is_there = sketch.cwd and plain_place(sketch.cwd) == plain_place(question.cwd)
            if not is_there:
                return False
        is_late = question.since is None or at >= question.since
        return is_late and (question.until is None or at <= question.until)

    def _is_within_bound(self, sketch: Sketch) -> bool:
        bound, at = self._question.bound, sketch.created_at
        if self._place(sketch) is not None:
            return False
        if bound is None or at is None:
            return True
        return at >= bound if self._question.descending else at <= bound

    def _place(self, sketch: Sketch) -> str | None:
        """Where a list counts a session that it leaves out whatever the limit is."""
        if sketch.nested and not self._question.children:
            return "children"
        return "archived" if sketch.source.archived and not self._question.archived else None


class _Families:
    """Files that share names, directly or through others."""

    def __init__(self, sketches: Sequence[Sketch]) -> None:
        self._leader: dict[str, str] = {}
        self._members: dict[str, list[SourceRef]] = {}
        self._own: dict[tuple[str | None, str], list[SourceRef]] = {}
        for sketch in sketches:
            for name in sketch.names:
                self._leader[self._find(name)] = self._find(sketch.session_id)
            if sketch.listed:
                whose = sketch.names[0] if sketch.nested and sketch.names else None
                self._own.setdefault((whose, sketch.session_id), []).append(sketch.source)
        for sketch in sketches:
            leader = self._find(sketch.session_id)
            self._members.setdefault(leader, []).append(sketch.source)

    def of(self, names: Iterable[str]) -> Iterator[SourceRef]:
        """All files of the families that go by some of these names."""
        for leader in {self._find(name) for name in names if name in self._leader}:
            yield from self._members.get(leader, ())

    def several(self) -> set[SourceRef]:
        """Files whose session lies in others, too."""
        return {source for sources in self._own.values() if len(sources) > 1 for source in sources}

    def _find(self, name: str) -> str:
        leader = self._leader
        leader.setdefault(name, name)
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name


def _names(facts: Facts) -> Iterator[str]:
    prefix = None if facts.prefix is None else facts.prefix.of
    named = (facts.session_id, *facts.aliases, facts.rollout, facts.parent, prefix, *facts.children)
    yield from filter(None, named)


def _began(sketch: Sketch) -> float:
    return 0.0 if sketch.created_at is None else sketch.created_at.timestamp()
