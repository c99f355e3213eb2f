"""Which transcripts bear on one that a list shows, told without reading them.

History is copied by resumes (to 1.0.11x) and by forks, often without a word about it. What is known
of copies:

- They lie in the folder of the original, and the copy stands first: the first answer of a copy is
  an answer of the original. So a file is a copy of one that was read if that has its first answer.
- A line is written into a file between the first and the last time in it. Copies keep the times,
  or (to 2.0.14) have that of the copying and no request id. So whoever has the first answer of a
  file was at work when it was given or, where it has no request id, began before. In those few the
  answer is searched for.
- A fork may be made in another folder, where the history was brought. Since there are such forks,
  copied lines keep their ids. So the copy begins with a prompt of the original, its first or, after
  a compaction, the summary: where no answer was seen, that tells. Only in the latter case all
  folders are searched for the original.
- A title for a line of another session is written after that line.

A copy bears on its original, too: it may have the final figures of a call.

All of this is about ids that are given once. A server that counts its answers gives them again, and
then any file may share a call with any other: there is no telling without reading everything.

Which transcripts bear on one session: those of its project, told by their heads.

Copies lie in the folder of the original and do not always say whose they are, so the head of every
transcript of the project is read. Whole are read: the session, its sub-agents and titles, what is
named by what was read (in whichever project), its copies and originals and, unless it has a name,
transcripts that may hold a title for it. Sub-agents in the folder of a session say by their place
whose they are; they are not opened for another session.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from typing import Final

from msgspec import UNSET

from amux.adapters._base import Choice, Chosen, Question, SourceRef
from amux.adapters._kit.kin import names_of
from amux.adapters._kit.pieces import Pieces
from amux.adapters._kit.sketches import FileChoice, Sketch
from amux.adapters.claude.heads import (
    MAY_BE_TITLE,
    UNKNOWN,
    Answer,
    HeadInfo,
    answer_of,
    last_time,
    read_head,
)
from amux.adapters.claude.transcript import own_id
from amux.model.facts import Facts
from amux.model.trace import key_of

_UNIQUE: Final = 16
"""How many characters an id has at least that nobody gives twice; shorter ones may be counted."""


def choose(sources: Sequence[SourceRef], question: Question) -> Choice:
    """What a list has to read of all transcripts and titles."""
    heads = [read_head(source) for source in sources if source.role != "names"]
    titles = [
        Sketch(source=source, session_id=own_id(source), listed=False)
        for source in sources
        if source.role == "names"
    ]
    sketches = [*(one.sketch for one in heads), *titles]
    return FileChoice(sketches, question, RelatedTranscripts(heads))


class RelatedTranscripts:
    """Copies, originals and titles of sessions that were read."""

    def __init__(self, heads: Iterable[HeadInfo]) -> None:
        self._all = [*heads]
        self._are_all_related = False
        self._by_place: dict[str, HeadInfo] = {}
        self._groups: dict[str, _Group] = {}
        self._by_answer: dict[int, list[HeadInfo]] = {}
        self._by_prompt: dict[int, list[HeadInfo]] = {}
        for one in self._all:
            if not one.sketch.nested:
                self._add(one)

    def _add(self, one: HeadInfo) -> None:
        self._by_place[one.sketch.source.place] = one
        self._groups.setdefault(one.sketch.source.group, _Group()).add(one)
        if one.answer is not None and one.answer is not UNSET:
            self._by_answer.setdefault(key_of(one.answer.id), []).append(one)
        if one.prompt is not None:
            self._by_prompt.setdefault(one.prompt, []).append(one)

    def related(
        self, source: SourceRef, facts: Facts, *, shown: bool
    ) -> Iterator[tuple[SourceRef, bool]]:
        """Copies of its answers and whose copies its own are, then those with a title for it."""
        if self._are_all_related:
            return
        own = self._by_place.get(source.place)
        if _has_counted_ids(own, facts):
            self._are_all_related = True
            yield from ((one.sketch.source, True) for one in self._all)
            return
        if own is None or not facts.unnamed_copies:
            return
        for one in self._sharing(own, facts):
            yield one.sketch.source, True
        if shown and facts.name is None:
            for one in self._groups[source.group].with_titles_for(own, facts):
                yield one.sketch.source, False

    def _sharing(self, own: HeadInfo, facts: Facts) -> Iterator[HeadInfo]:
        """Copies of what a session has, and those that have what it begins with."""
        answers = set(array("q", facts.identity))
        yield from _matching(answers, self._by_answer)
        yield from _matching(set(facts.trace.key_list()), self._by_prompt)
        group = self._groups[own.sketch.source.group]
        yield from group.copies_of(own, answers)
        for each in self._groups.values() if own.is_compacted else (group,):
            yield from each.originals_of(own)


class _Group:
    """The transcripts of one project."""

    def __init__(self) -> None:
        self._members: list[HeadInfo] = []
        self._answer_unread: list[HeadInfo] = []  # whose first answer was not looked for
        self._by_leaf: dict[int, list[HeadInfo]] = {}

    def add(self, one: HeadInfo) -> None:
        """Enter a transcript."""
        self._members.append(one)
        if one.answer is UNSET:
            self._answer_unread.append(one)
        for leaf in one.leaves:
            self._by_leaf.setdefault(leaf, []).append(one)

    def copies_of(self, original: HeadInfo, keys: set[int]) -> Iterator[HeadInfo]:
        """Transcripts that begin with an answer of this one, where that was not seen yet."""
        first = -inf if original.earliest is None else original.earliest
        for one in self._answer_unread:
            if one.earliest is None or first <= one.earliest <= _end(original):
                answer = answer_of(one)
                if answer is UNKNOWN or (answer is not None and key_of(answer.id) in keys):
                    yield one

    def originals_of(self, copy: HeadInfo) -> Iterator[HeadInfo]:
        """Transcripts that have the answer with which this one begins."""
        answer = answer_of(copy)
        if answer is None:
            return
        id = answer.id.encode("utf-8", "replace")
        for one in self._active_at(answer):
            if one is not copy and _contains(one, id):
                yield one

    def _active_at(self, answer: Answer) -> Iterator[HeadInfo]:
        at = inf if answer.at is None else answer.at
        ends_later = at if answer.has_request and answer.at is not None else -inf
        for one in self._members:
            if one.earliest is None or (one.earliest <= at and _end(one) >= ends_later):
                yield one

    def with_titles_for(self, own: HeadInfo, facts: Facts) -> Iterator[HeadInfo]:
        """Transcripts that may hold a title for a line of a session."""
        if self._by_leaf:
            yield from _matching(set(facts.trace.key_list()), self._by_leaf)
        first = _first_written(own)
        for one in self._members:
            if one is not own and _end(one) >= first and _has_late_titles(one):
                yield one


def _matching(keys: set[int], filed: Mapping[int, Sequence[HeadInfo]]) -> Iterator[HeadInfo]:
    for key in filed.keys() & keys:
        yield from filed[key]


def _has_counted_ids(own: HeadInfo | None, facts: Facts) -> bool:
    """Whether there are answers whose ids others may have by chance."""
    first = None if own is None or own.answer is UNSET else own.answer
    if first is not None and first is not UNKNOWN and len(first.id) < _UNIQUE:
        return True
    return any(len(call.key) < _UNIQUE for call in facts.calls)


def _first_written(one: HeadInfo) -> float:
    """Since when there may be titles for its lines: copied ones are older than the file."""
    answer = answer_of(one)
    if one.earliest is None or (answer is not None and not answer.has_request):
        return -inf
    return one.earliest


def _end(one: HeadInfo) -> float:
    if one.end is None:
        try:
            with Pieces(one.sketch.source.place) as file:
                one.end = last_time(file)
        except OSError:
            one.end = inf  # whoever reads it will tell
    return one.end


def _contains(one: HeadInfo, id: bytes) -> bool:
    """Whether an answer is in a file; in passing, whether titles are."""
    data = _bytes_of(one)
    one.has_late_titles = data.find(MAY_BE_TITLE, one.size) >= 0
    return id in data


def _has_late_titles(one: HeadInfo) -> bool:
    """Whether there may be titles behind its head, where resuming in place leaves them."""
    if one.has_late_titles is None:
        one.has_late_titles = _bytes_of(one).find(MAY_BE_TITLE, one.size) >= 0
    return one.has_late_titles


def _bytes_of(one: HeadInfo) -> bytes:
    try:
        return one.sketch.source.path.read_bytes()
    except OSError:
        return b""  # reading it would tell no more


_NO_LIST = Question(limit=0)


class SessionSelection:
    """What to read for one session; a project is looked at when something in it is named."""

    def __init__(self, sources: Sequence[SourceRef], session_id: str) -> None:
        self._session_id = session_id
        self._projects: dict[str, list[SourceRef]] = {}
        self._groups_by_name: dict[str, set[str]] = {}  # projects that hold a session, by its name
        self._open: dict[str, FileChoice] = {}
        for source in sources:
            self._projects.setdefault(source.group, []).append(source)
            for name in _names_in_path(source):
                self._groups_by_name.setdefault(name, set()).add(source.group)

    @property
    def is_known(self) -> bool:
        """Whether some file's name shows the session."""
        return self._session_id in self._groups_by_name

    def more(self, read: Sequence[tuple[SourceRef, Facts]]) -> Chosen:
        """What is named by what was read, and what its projects relate to it."""
        named = {self._session_id, *chain.from_iterable(names_of(facts) for _, facts in read)}
        chosen: dict[SourceRef, Sequence[str]] = {}
        for group in set(chain.from_iterable(self._groups_by_name.get(name, ()) for name in named)):
            if group not in self._open:
                self._open[group] = _open_group(self._projects[group])
                chosen.update(self._open[group].first())
            own = [(source, facts) for source, facts in read if source.group == group]
            chosen.update(self._open[group].named(named))
            chosen.update(self._open[group].more(own))
        return chosen


def _names_in_path(source: SourceRef) -> Iterable[str]:
    return filter(None, {source.session_id, source.parent, source.name.partition(".")[0]})


def _open_group(sources: Sequence[SourceRef]) -> FileChoice:
    sketches = [_head_from_path(source) for source in sources if _names_its_session(source)]
    heads = [read_head(source) for source in sources if not _names_its_session(source)]
    sketches += (one.sketch for one in heads)
    return FileChoice(sketches, _NO_LIST, RelatedTranscripts(heads))


def _names_its_session(source: SourceRef) -> bool:
    return source.role == "names" or source.parent is not None


def _head_from_path(source: SourceRef) -> Sketch:
    whose = () if source.parent is None else (source.parent,)
    is_agent = source.role == "subagent"
    return Sketch(
        source=source, session_id=own_id(source), listed=is_agent, nested=is_agent, names=whose
    )
