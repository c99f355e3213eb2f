"""Selects the transcripts that affect the sessions of a list, or one session, by their heads.

Resumes (to 1.0.11x) and forks copy history, often without recording it. Copies have these
properties:

- A copy is in the folder of its original, and its first answer is an answer of the original.
  Therefore a file is a copy of one that was read if that one contains its first answer.
- A line is written between the first and the last time in its file. Copies keep the times, or (to
  2.0.14) have the time of the copying and no request id. Therefore a file that contains the first
  answer of another one was active when that answer was given or, if it has no request id, began
  before. Those few files are searched for the answer.
- A fork may be made in another folder to which the history was moved. Versions that can do so keep
  the ids of copied lines. Therefore such a copy begins with a prompt of the original: the first one
  or, after a compaction, the summary. This is decisive if no answer was read. Only after a
  compaction are all folders searched for the original.
- A title for a line of another session is written after that line.

A copy also affects its original: it may have the final figures of a call.

All of this requires unique ids. If a server numbers its answers and starts again, any file may
share a call with any other, so everything is read.

For one session the heads of its project are read. Read as a whole are the session, its sub-agents
and titles, everything that is named by what was read (in any project), its copies and originals
and, unless it has a title, transcripts that may hold one. The path of a sub-agent in the folder of
a session names that session; it is not opened for another one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from typing import Final

from msgspec import UNSET

from amux.adapters._base import ListFilter, SelectedSessions, Selection, SourceRef
from amux.adapters._kit.related import names_of
from amux.adapters._kit.session_heads import HeadSelection, SessionHead
from amux.adapters._kit.streams import RawFile
from amux.adapters.claude.heads import (
    MAY_BE_TITLE,
    UNKNOWN,
    HeadInfo,
    answer_of,
    last_time,
    read_head,
)
from amux.adapters.claude.transcript import own_id
from amux.model.facts import Facts
from amux.model.trace import key_of

_UNIQUE: Final = 16
"""The minimum length of an id that is considered unique; shorter ones may be numbers."""


def select(sources: Sequence[SourceRef], list_filter: ListFilter) -> Selection:
    """Select what a list must read of all transcripts and titles."""
    heads = [read_head(source) for source in sources if source.role != "names"]
    titles = [
        SessionHead(source=source, session_id=own_id(source), listed=False)
        for source in sources
        if source.role == "names"
    ]
    session_heads = [*(one.head for one in heads), *titles]
    return HeadSelection(session_heads, list_filter, RelatedTranscripts(heads))


class RelatedTranscripts:
    """Finds copies, originals and titles of sessions that were read."""

    def __init__(self, heads: Iterable[HeadInfo]) -> None:
        self._all = [*heads]
        self._are_all_related = False
        self._by_location: dict[str, HeadInfo] = {}
        self._groups: dict[str, _Group] = {}
        self._by_answer: dict[int, list[HeadInfo]] = {}
        self._by_prompt: dict[int, list[HeadInfo]] = {}
        for one in self._all:
            if one.head.nested:
                continue
            self._by_location[one.head.source.location] = one
            self._groups.setdefault(one.head.source.group, _Group()).add(one)
            if one.answer is not None and one.answer is not UNSET:
                self._by_answer.setdefault(key_of(one.answer.id), []).append(one)
            if one.prompt is not None:
                self._by_prompt.setdefault(one.prompt, []).append(one)

    def related(
        self, source: SourceRef, facts: Facts, *, shown: bool
    ) -> Iterator[tuple[SourceRef, bool]]:
        """Yield copies and originals of a session, then transcripts with a title for it."""
        if self._are_all_related:
            return
        own = self._by_location.get(source.location)
        if _has_counted_ids(own, facts):
            self._are_all_related = True
            yield from ((one.head.source, True) for one in self._all)
            return
        if own is None or not facts.unnamed_copies:
            return
        for one in self._sharing(own, facts):
            yield one.head.source, True
        if shown and facts.name is None:
            for one in self._groups[source.group].with_titles_for(own, facts):
                yield one.head.source, False

    def _sharing(self, own: HeadInfo, facts: Facts) -> Iterator[HeadInfo]:
        """Yield the copies of a session and the originals of what it begins with."""
        answers = set(array("q", facts.copy_keys))
        yield from _matching(answers, self._by_answer)
        yield from _matching(set(facts.trace.key_list()), self._by_prompt)
        group = self._groups[own.head.source.group]
        yield from group.copies_of(own, answers)
        for each in self._groups.values() if own.is_compacted else (group,):
            yield from each.originals_of(own)


class _Group:
    """The transcripts of one project."""

    def __init__(self) -> None:
        self._members: list[HeadInfo] = []
        self._answer_unread: list[HeadInfo] = []  # the first answer was not read yet
        self._by_leaf: dict[int, list[HeadInfo]] = {}

    def add(self, one: HeadInfo) -> None:
        """Add a transcript."""
        self._members.append(one)
        if one.answer is UNSET:
            self._answer_unread.append(one)
        for leaf in one.leaves:
            self._by_leaf.setdefault(leaf, []).append(one)

    def copies_of(self, original: HeadInfo, keys: set[int]) -> Iterator[HeadInfo]:
        """Yield transcripts that begin with an answer of this one, reading answers if necessary."""
        first = -inf if original.earliest is None else original.earliest
        for one in self._answer_unread:
            if one.earliest is None or first <= one.earliest <= _end(original):
                answer = answer_of(one)
                if answer is UNKNOWN or (answer is not None and key_of(answer.id) in keys):
                    yield one

    def originals_of(self, copy: HeadInfo) -> Iterator[HeadInfo]:
        """Yield transcripts that contain the first answer of this one."""
        answer = answer_of(copy)
        if answer is None:
            return
        id = answer.id.encode("utf-8", "replace")
        at = inf if answer.at is None else answer.at
        ends_later = at if answer.has_request and answer.at is not None else -inf
        for one in self._members:
            is_active = one.earliest is None or (one.earliest <= at and _end(one) >= ends_later)
            if is_active and one is not copy:
                data = _bytes_of(one)
                one.has_late_titles = data.find(MAY_BE_TITLE, one.size) >= 0
                if id in data:
                    yield one

    def with_titles_for(self, own: HeadInfo, facts: Facts) -> Iterator[HeadInfo]:
        """Yield transcripts that may hold a title for a line of a session."""
        if self._by_leaf:
            yield from _matching(set(facts.trace.key_list()), self._by_leaf)
        # Titles are written after their lines, but the time of a copied line is that of copying.
        answer = answer_of(own)
        is_copied = answer is not None and not answer.has_request
        first = -inf if own.earliest is None or is_copied else own.earliest
        for one in self._members:
            if one is not own and _end(one) >= first:
                if one.has_late_titles is None:  # resuming in place writes them after the head
                    one.has_late_titles = _bytes_of(one).find(MAY_BE_TITLE, one.size) >= 0
                if one.has_late_titles:
                    yield one


def _matching(keys: set[int], filed: Mapping[int, Sequence[HeadInfo]]) -> Iterator[HeadInfo]:
    for key in filed.keys() & keys:
        yield from filed[key]


def _has_counted_ids(own: HeadInfo | None, facts: Facts) -> bool:
    """Return whether an answer has an id that other sessions may have by chance."""
    first = None if own is None or own.answer is UNSET else own.answer
    if first is not None and first is not UNKNOWN and len(first.id) < _UNIQUE:
        return True
    return any(len(call.key) < _UNIQUE for call in facts.calls)


def _end(one: HeadInfo) -> float:
    if one.end is None:
        try:
            with RawFile(one.head.source.location) as file:
                one.end = last_time(file)
        except OSError:
            one.end = inf  # reading the file reports the error
    return one.end


def _bytes_of(one: HeadInfo) -> bytes:
    try:
        return one.head.source.path.read_bytes()
    except OSError:
        return b""  # reading it would give no more


_NO_LIST = ListFilter(limit=0)


class SessionSelection:
    """Selects what to read for one session; a project is opened when it is named."""

    def __init__(self, sources: Sequence[SourceRef], session_id: str) -> None:
        self._session_id = session_id
        self._projects: dict[str, list[SourceRef]] = {}
        self._groups_by_name: dict[str, set[str]] = {}  # projects that contain a session, by its id
        self._open: dict[str, HeadSelection] = {}
        for source in sources:
            self._projects.setdefault(source.group, []).append(source)
            for name in (source.session_id, source.parent, source.name.partition(".")[0]):
                if name:
                    self._groups_by_name.setdefault(name, set()).add(source.group)

    @property
    def is_known(self) -> bool:
        """Whether a file name contains the session id."""
        return self._session_id in self._groups_by_name

    def more(self, read: Sequence[tuple[SourceRef, Facts]]) -> SelectedSessions:
        """Select what is named by the facts read so far, and what is related to it."""
        named = {self._session_id, *chain.from_iterable(names_of(facts) for _, facts in read)}
        chosen: dict[SourceRef, Sequence[str]] = {}
        for group in set(chain.from_iterable(self._groups_by_name.get(name, ()) for name in named)):
            if group not in self._open:
                by_path = [each for each in self._projects[group] if _names_its_session(each)]
                others = [each for each in self._projects[group] if not _names_its_session(each)]
                heads = [read_head(source) for source in others]
                session_heads = [*map(_head_from_path, by_path), *(one.head for one in heads)]
                related = RelatedTranscripts(heads)
                self._open[group] = HeadSelection(session_heads, _NO_LIST, related)
                chosen.update(self._open[group].first())
            own = [(source, facts) for source, facts in read if source.group == group]
            chosen.update(self._open[group].named(named))
            chosen.update(self._open[group].more(own))
        return chosen


def _names_its_session(source: SourceRef) -> bool:
    return source.role == "names" or source.parent is not None


def _head_from_path(source: SourceRef) -> SessionHead:
    whose = () if source.parent is None else (source.parent,)
    is_agent = source.role == "subagent"
    return SessionHead(
        source=source, session_id=own_id(source), listed=is_agent, nested=is_agent, names=whose
    )
