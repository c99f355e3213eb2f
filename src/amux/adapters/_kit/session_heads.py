"""Selects the files that a list has to read, by the heads of files with one session each.

A list reads the files that it can show according to its filters, order and limit, and every file
that can affect them: files that share a session name with them, in their heads or in what was read,
and files that are related by rules of the agent. A file whose head is not sufficient, and a session
that is in several files, is always read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from heapq import nlargest, nsmallest
from typing import Protocol

import msgspec

from amux.adapters._base import ListFilter, SelectedSessions, SkippedCounts, SourceRef
from amux.adapters._kit.related import names_of
from amux.model.directories import plain_directory
from amux.model.facts import Facts


class SessionHead(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The information in the head of a file. Every field equals that of the session's facts."""

    source: SourceRef
    session_id: str
    listed: bool = True  # False: the file has no session to list, but a title, for instance
    told: bool = True  # False: the head is not sufficient, so the file has to be read
    created_at: datetime | None = None
    cwd: str | None = None
    nested: bool = False
    # Its other names, and those of the sessions it belongs to or comes from.
    names: tuple[str, ...] = ()


class RelatedFiles(Protocol):
    """Rules of an agent for files that are related beyond the names in their heads."""

    def related(
        self, source: SourceRef, facts: Facts, *, shown: bool
    ) -> Iterable[tuple[SourceRef, bool]]:
        """Yield the files that can affect a session, and whether to follow their relations too.

        If `shown` is true, the list may show the session, so its title matters as well.
        """
        ...


class HeadSelection:
    """Selects files. It refers to them by number, which is faster than comparing sources."""

    def __init__(
        self,
        heads: Sequence[SessionHead],
        list_filter: ListFilter,
        rules: RelatedFiles | None = None,
    ) -> None:
        self._heads = heads
        self._filter = list_filter
        self._rules = rules
        self._numbers = {head.source.location: number for number, head in enumerate(heads)}
        self._groups = _NameGroups(heads)
        self._insufficient = {n for n, head in enumerate(heads) if not head.told}
        self._insufficient |= self._groups.several()
        self._matching = {n: at for n, head in enumerate(heads) if (at := self._start(head))}
        self._first_matching = self._in_order(list_filter.bound)
        self._read: set[int] = set()
        self._shown: set[int] = set()
        self._unfollowed: set[int] = set()  # read without following their relations

    def began(self) -> Sequence[datetime]:
        """Return the start times, according to the heads, of the sessions to show."""
        return [self._matching[number] for number in self._first_matching]

    def first(self, bound: datetime | None = None) -> SelectedSessions:
        """Return the files that may be shown, those with insufficient heads, and related ones."""
        shown = (n for n in self._first_matching if not self._is_after(self._matching[n], bound))
        self._shown = self._insufficient.union(shown)
        names = {self._heads[number].session_id for number in self._shown}
        return self._select([*self._shown, *self._groups.of(names | self._filter.named)])

    def named(self, names: Collection[str]) -> SelectedSessions:
        """Return the files of sessions with these names, and related files."""
        self._shown.update(self._groups.own(names))
        return self._select(self._groups.of(names))

    def more(self, read: Sequence[tuple[SourceRef, Facts]]) -> SelectedSessions:
        """Return the files related to those just read, by their facts and the agent's rules."""
        found: list[int] = []
        ends: list[int] = []
        for source, facts in read:
            number = self._numbers[source.location]
            if number in self._unfollowed:
                continue
            found += self._groups.of(names_of(facts))
            if self._rules is not None:
                shown = number in self._shown
                for other, goes_on in self._rules.related(source, facts, shown=shown):
                    (found if goes_on else ends).append(self._numbers[other.location])
        chosen = self._select(found)
        self._unfollowed.update(set(ends) - self._read)
        return {**chosen, **self._select(ends)}

    def skipped(self) -> SkippedCounts:
        """Return the number of matching sessions that were not read, by reason."""
        unread = (self._heads[number] for number in self._matching.keys() - self._read)
        counts = Counter(self._skip_reason(head) or "more" for head in unread)
        return SkippedCounts(*(counts[reason] for reason in SkippedCounts._fields))

    def _select(self, numbers: Iterable[int]) -> dict[SourceRef, Sequence[str]]:
        fresh = sorted(set(numbers) - self._read)
        self._read.update(fresh)
        chosen = (self._heads[number] for number in fresh)
        return {head.source: (head.session_id,) for head in chosen}

    def _start(self, head: SessionHead) -> datetime | None:
        """Return the start time of a session; None if it does not match the filters."""
        list_filter, at = self._filter, head.created_at
        if not head.listed or not head.told or at is None:
            return None
        wanted = None if list_filter.cwd is None else plain_directory(list_filter.cwd)
        if wanted is not None and (not head.cwd or plain_directory(head.cwd) != wanted):
            return None
        is_late = list_filter.since is None or at >= list_filter.since
        return at if is_late and (list_filter.until is None or at <= list_filter.until) else None

    def _in_order(self, bound: datetime | None) -> list[int]:
        """Return the matching sessions up to the limit, without those a list only counts."""
        heads, limit = self._heads, self._filter.limit
        visible = {
            number: at
            for number, at in self._matching.items()
            if number not in self._insufficient and self._skip_reason(heads[number]) is None
        }
        if limit and len(visible) > limit:  # sorting all of them would be slowest
            ends = nlargest if self._filter.descending else nsmallest
            edge = ends(limit, visible.values())[-1]
            visible = {n: at for n, at in visible.items() if not self._is_after(at, edge)}
        found = [number for number, at in visible.items() if not self._is_after(at, bound)]
        found.sort(key=lambda number: _sort_key(heads[number]))
        found.sort(key=visible.__getitem__, reverse=self._filter.descending)
        return found[:limit]

    def _is_after(self, at: datetime, bound: datetime | None) -> bool:
        """Return whether a time comes after the bound in list order."""
        if bound is None:
            return False
        return at < bound if self._filter.descending else at > bound

    def _skip_reason(self, head: SessionHead) -> str | None:
        """Return the count that includes a session hidden by the filters; None if visible."""
        if head.nested and not self._filter.children:
            return "children"
        return "archived" if head.source.archived and not self._filter.archived else None


class _NameGroups:
    """Groups files, by number, that share names directly or through others."""

    def __init__(self, heads: Sequence[SessionHead]) -> None:
        self._leader: dict[str, str] = {}  # a union-find; names that are absent lead themselves
        self._members: dict[str, list[int]] = {}
        self._own: dict[tuple[str, bool, str], list[int]] = {}
        for number, head in enumerate(heads):
            for name in head.names:
                self._leader[self._find(name)] = self._find(head.session_id)
            if head.listed:
                self._own.setdefault(_sort_key(head), []).append(number)
        for number, head in enumerate(heads):
            self._members.setdefault(self._find(head.session_id), []).append(number)

    def of(self, names: Iterable[str]) -> Iterator[int]:
        """Yield all files of the groups with at least one of these names."""
        for leader in {self._find(name) for name in names}:
            yield from self._members.get(leader, ())

    def own(self, names: Collection[str]) -> Iterator[int]:
        """Yield the files of the sessions with these ids."""
        for (session_id, *_), numbers in self._own.items():
            if session_id in names:
                yield from numbers

    def several(self) -> set[int]:
        """Return the files whose session is in several files."""
        return {number for numbers in self._own.values() if len(numbers) > 1 for number in numbers}

    def _find(self, name: str) -> str:
        leader = self._leader
        while (above := leader.get(name, name)) != name:
            leader[name] = leader.get(above, above)
            name = above
        return name


def _sort_key(head: SessionHead) -> tuple[str, bool, str]:
    """Return the sort key among equal start times; equal keys belong to the same session."""
    whose = head.names[0] if head.nested and head.names else ""
    return head.session_id, head.nested, whose
