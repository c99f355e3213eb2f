"""Selects the rollouts that affect one session, by file names and a few heads.

File names lead to the session itself, to everything that it names, and to everything that these
name. Two kinds of rollouts are named only by their own first lines:

- Sub-agents that their parent does not name, such as reviewers. They begin while their parent is
  active, so only the heads of files from these days are read. Their ids are ordered by time (UUID
  version 7); other files are opened only if the parent asked for a review.
- Other copies of a parent that was deleted. Only then the heads of all files are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from amux.adapters._base import ListFilter, SelectedSessions, SourceRef
from amux.adapters._kit.related import names_of
from amux.adapters._kit.session_heads import HeadSelection, SessionHead
from amux.adapters.codex.heads import read_head, session_head
from amux.adapters.codex.rollout import REVIEWS, file_name
from amux.model.facts import Facts

_DAY: Final = re.compile(r"rollout-(\d{4}-\d\d-\d\d)T")
_SLACK: Final = timedelta(days=2)  # names have the local time; clocks differ
_ORDERED: Final = re.compile(r".{8}-.{4}-7")
_NO_LIST: Final = ListFilter(limit=0)


class SessionSelection:
    """Selects, in rounds, what to read for one session."""

    def __init__(self, sources: Sequence[SourceRef], session_id: str) -> None:
        self._sources = sources
        self._session_id = session_id
        self._family = {session_id}  # the session and its sub-agents
        self._chosen: set[str] = set()
        self._heads: dict[str, SessionHead] = {}
        self._by_name: dict[str, list[SourceRef]] = {}
        for source in sources:
            if source.session_id is not None:
                name = file_name(source.name)
                for each in {source.session_id, name.stem, name.rollout_id}:
                    self._by_name.setdefault(each, []).append(source)

    @property
    def is_known(self) -> bool:
        """Whether a file name contains the id."""
        return self._session_id in self._by_name

    def more(self, read: Sequence[tuple[SourceRef, Facts]]) -> SelectedSessions:
        """Return the rollouts related to those just read; at first those of the session."""
        found: list[SourceRef] = []
        if not self._chosen:
            unnamed = (source for source in self._sources if source.session_id is None)
            found += [*self._by_name.get(self._session_id, ()), *unnamed]
        for _, facts in read:
            found += self._related(facts)
        fresh = {
            each: (each.session_id or "",) for each in found if each.location not in self._chosen
        }
        self._chosen.update(source.location for source in fresh)
        return fresh

    def _related(self, facts: Facts) -> Iterator[SourceRef]:
        if facts.unnamed_copies:
            yield from self._sources
            return
        for name in names_of(facts):
            yield from self._by_name.get(name, ())
        if facts.parent is not None and facts.parent not in self._by_name:
            yield from self._linked(facts.session_id)
        if not self._family.isdisjoint((facts.session_id, *facts.aliases)) or (
            facts.kind == "subagent" and facts.parent in self._family
        ):
            self._family.add(facts.session_id)
            yield from self._children(facts)

    def _linked(self, session_id: str) -> Iterator[SourceRef]:
        """Yield everything that names in heads connect with a session, over lost sessions, too."""
        heads = [self._head(source) for source in self._sources]
        yield from HeadSelection(heads, _NO_LIST).named({session_id})

    def _children(self, facts: Facts) -> Iterator[SourceRef]:
        """Yield the sub-agents of a session according to their own heads."""
        first, last = _day(facts.created_at, -_SLACK), _day(facts.updated_at, _SLACK)
        for source in self._sources:
            if source.location in self._chosen or source.session_id is None:
                continue
            day = _DAY.match(source.name)
            if day is None or not (first <= day[1] and (not last or day[1] <= last)):
                continue
            if REVIEWS in facts.raw or _ORDERED.match(source.session_id):
                head = self._head(source)
                if head.nested and head.names[0] == facts.session_id:
                    yield source

    def _head(self, source: SourceRef) -> SessionHead:
        if source.location not in self._heads:
            self._heads[source.location] = session_head(source, read_head(source), listed=False)
        return self._heads[source.location]


def _day(moment: datetime | None, shift: timedelta) -> str:
    """Return a day as file names have it; "" if it is unknown or out of range."""
    try:
        return "" if moment is None else f"{(moment + shift).date()}"
    except OverflowError:
        return ""
