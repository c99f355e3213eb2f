"""Looking through sessions: which messages fit a query.

One message is held at a time. A text too long to be held comes after the messages, in pieces; it is
known by its beginning, which its message has too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import nlargest
from itertools import chain, islice, pairwise
from typing import Final, NamedTuple

from amux.adapters._base import TextCut
from amux.model.message import SessionMessage
from amux.model.words import fold
from amux.sessions.candidates import NONE, Shortlist
from amux.sessions.cutting import Cutter
from amux.sessions.filtering import admitted_passages
from amux.sessions.findings import CONSIDERED, Finding, Place, Unread
from amux.sessions.library import Library
from amux.sessions.matching import OnWords, Tally, Window
from amux.sessions.passages import MACHINE_WEIGHT, TITLE_WEIGHT
from amux.sessions.query import Query
from amux.sessions.subjects import Subject

_BEGINNING: Final = 1000
_LONG: Final = 1 << 15
"""A text that is cut while messages are read is still longer than this."""

Known = dict[str, tuple[Place, bool]]
"""Where long texts stand, by their beginnings, and whether their messages are hits already."""


class _Hit(NamedTuple):
    """A message that fits, and where it stands."""

    tally: Tally
    place: Place


class Scanner:
    """Looks through sessions for one query."""

    def __init__(self, library: Library, query: Query, *, on_words: OnWords | None = None) -> None:
        self._library = library
        self._query = query
        self._filters = query.filters.of_messages
        self.on_words = on_words
        self._needs_words = query.needs_words
        self._cutters: dict[str, Cutter | None] = {}

    def look_at(
        self, subject: Subject, shortlists: Sequence[Shortlist], *, room: int | None
    ) -> Finding | None:
        """The title of a session, then its messages as far as they may fit; None: nothing does."""
        is_title_worth_it = self._is_title_worth_it(subject.traits.title)
        places = [place for place, some in enumerate(shortlists) if some is not NONE]
        if not is_title_worth_it and not places:
            return None
        finding = Finding(subject, room)
        if is_title_worth_it:
            self._look_at_title(finding)
        for place in places:
            self._look_at_messages(finding, place, shortlists[place])
        return finding

    def _is_title_worth_it(self, title: str) -> bool:
        """Most titles hold nothing of a query, which is seen quickly."""
        if not self._needs_words or self.on_words is not None:
            return True
        folded = fold(title)
        return any(term.count(title, folded) for term in self._query.terms)

    def _look_at_title(self, finding: Finding) -> None:
        """A title counts for ranking; it is a hit unless messages are asked for."""
        tally = Tally(self._query, on_words=self.on_words)
        tally.add(finding.subject.traits.title, weight=TITLE_WEIGHT)
        finding.hold(tally.weights)
        finding.is_in_title = tally.is_match and not self._filters
        finding.is_match = finding.is_match or finding.is_in_title

    def _look_at_messages(self, finding: Finding, place: int, shortlist: Shortlist) -> None:
        """The messages of a conversation: the session's own, or that of a sub-agent of it."""
        if shortlist.numbers is not None:
            if not shortlist.numbers:
                return
            if shortlist.exact:
                finding.is_match = True
                finding.hit_count += len(shortlist.numbers)
                finding.hold(shortlist.weights)
                finding.unread.append(Unread(place, shortlist.numbers, shortlist.spots))
                return
        known: Known = {}
        for message, found_at in self._messages(finding, place, shortlist.numbers):
            self._look_at_message(finding, message, found_at, known)
        conversation = finding.subject.conversations()[place]
        somewhere = Place(session_id=conversation.session_id if place else None)
        for pieces in self._library.long_texts(conversation):
            self._look_at_long_text(finding, pieces, somewhere, known)

    def show(self, finding: Finding) -> None:
        """Read the hits that were known without reading; which are the best, only they tell."""
        if finding.is_in_title:
            tally = Tally(self._query)
            tally.add(finding.subject.traits.title, weight=TITLE_WEIGHT)
            finding.snippet = tally.excerpt().text or None
        for tally, found_at in _worth_showing(self._unread(finding), finding.room):
            finding.show(tally, found_at)
        finding.unread.clear()

    def _unread(self, finding: Finding) -> Iterator[_Hit]:
        """The hits that the index has told of, as far as they are still there."""
        for place, numbers, find_spots in finding.unread:
            left = deque(sorted(numbers))
            spots = None if find_spots is None else find_spots()
            cutter = None if spots is None else self._cutter(finding.subject.traits.agent)
            if cutter is not None and spots is not None:
                session_id = finding.subject.conversations()[place].session_id if place else None
                for message in cutter.messages(spots, tuple(left)):
                    tally = self._tally(message)
                    if tally is None or not tally.is_match:
                        break  # the file is another one than it was
                    at = Place(left.popleft(), message.role, message.timestamp, session_id)
                    yield _Hit(tally, at)
            if left:
                yield from self._read_unread(finding, place, left)

    def _read_unread(self, finding: Finding, place: int, numbers: Collection[int]) -> Iterator[_Hit]:
        for message, found_at in self._messages(finding, place, numbers):
            tally = self._tally(message)
            if tally is not None and tally.is_match:
                yield _Hit(tally, found_at)

    def _cutter(self, agent: str) -> Cutter | None:
        """Who reads single messages of an agent, if anybody can."""
        if agent not in self._cutters:
            adapter = self._library.adapter(agent)
            self._cutters[agent] = Cutter(adapter) if isinstance(adapter, TextCut) else None
        return self._cutters[agent]

    def _messages(
        self, finding: Finding, place: int, numbers: Iterable[int] | None
    ) -> Iterator[tuple[SessionMessage, Place]]:
        """The messages of these numbers, each with its place; reading ends with the last."""
        wanted = None if numbers is None else frozenset(numbers)
        last = None if wanted is None else max(wanted, default=0)
        subject = finding.subject
        conversation = subject.conversations()[place]
        session_id = conversation.session_id if place else None
        messages = self._library.searchable(subject.traits.agent, conversation)
        for number, message in enumerate(messages, start=1):
            if wanted is None or number in wanted:
                yield message, Place(number, message.role, message.timestamp, session_id)
            if number == last:
                return

    def _look_at_message(
        self, finding: Finding, message: SessionMessage, place: Place, known: Known
    ) -> None:
        long: list[str] = []
        tally = self._tally(message, long)
        if tally is None:
            return
        finding.hold(tally.weights)
        if tally.is_match:
            finding.match(tally, place)
        known.update((beginning, (place, tally.is_match)) for beginning in long)

    def _tally(self, message: SessionMessage, long: list[str] | None = None) -> Tally | None:
        """What a message holds; None where it can be no hit. `long` gets beginnings of texts."""
        passages = admitted_passages(self._filters, message)
        if passages is None:
            return None
        tally = Tally(self._query, on_words=self.on_words)
        for passage in passages:
            tally.add(passage.text, weight=passage.weight)
            if long is not None and len(passage.text) > _LONG:
                long.append(passage.text[:_BEGINNING])
        return tally

    def _look_at_long_text(
        self, finding: Finding, pieces: Iterator[str], somewhere: Place, known: Known
    ) -> None:
        beginning = next(pieces)
        place, is_hit = known.get(beginning[:_BEGINNING], (somewhere, False))
        if self._filters and place.number is None:
            return  # whether its message passes cannot be known
        tally = Tally(self._query, on_words=self.on_words)
        for window in _marked(chain((beginning,), pieces)):
            tally.add(window.text, weight=MACHINE_WEIGHT, cut=window.cut)
        finding.hold(tally.weights)
        if tally.is_match and not is_hit:
            finding.match(tally, place)


def _worth_showing(hits: Iterator[_Hit], room: int | None) -> Iterable[_Hit]:
    """The first and the best, in order: of the others no excerpt need be cut."""
    if room is None:
        return hits
    numbered = enumerate(islice(hits, CONSIDERED))
    first = next(numbered, None)
    if first is None:
        return ()
    best = nlargest(room, chain((first,), numbered), key=lambda one: (one[1].tally.score, -one[0]))
    return [hit for _, hit in sorted({first[0]: first[1], **dict(best)}.items())]


def _marked(pieces: Iterable[str]) -> Iterator[Window]:
    """The pieces of a text that overlap, each with where it was cut."""
    is_first = True
    for piece, following in pairwise(chain(pieces, (None,))):
        if piece is not None:
            yield Window(piece, (not is_first, following is not None))
        is_first = False
