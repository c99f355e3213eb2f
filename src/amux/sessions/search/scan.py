"""Looking through sessions: which messages fit a query.

One message is held at a time. A text too long to be held comes after the messages, in pieces; it is
known by its beginning, which its message has too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import Final

from amux.adapters._base import ReadsMessageAt
from amux.model.message import SessionMessage
from amux.model.words import fold
from amux.reading.message_locations import MessageLocations
from amux.reading.sources import SourceCatalog
from amux.sessions.search.candidates import NONE, MessageCandidates
from amux.sessions.search.filters import admitted_passages
from amux.sessions.search.hits import TITLE_HITS, HitLocation, PendingHits, SessionHits, excerpt_of
from amux.sessions.search.match import MatchState, Window, said_in, windows
from amux.sessions.search.message_at import cut_messages, cutter_of
from amux.sessions.search.query.grammar import Query
from amux.sessions.search.searchable import SearchableSession
from amux.sessions.search.snippets import cut_title

_BEGINNING: Final = 1000
_LONG: Final = 1 << 15
"""A text that is cut while messages are read is still longer than this."""

OnWords = Callable[[str], None]
"""Is shown every window of folded text that somebody said, whatever filters say of it."""

Known = dict[str, tuple[HitLocation, bool]]
"""Where long texts stand, by their beginnings, and whether their messages are hits already."""


class Scanner:
    """Looks through sessions for one query."""

    def __init__(
        self, catalog: SourceCatalog, query: Query, *, on_words: OnWords | None = None
    ) -> None:
        self._catalog = catalog
        self._query = query
        self._filters = query.filters.of_messages
        self.on_words = on_words
        self._needs_words = query.needs_words
        self._cutters: dict[str, ReadsMessageAt | None] = {}

    def look_at(
        self,
        subject: SearchableSession,
        shortlists: Sequence[MessageCandidates],
        *,
        room: int | None,
    ) -> SessionHits | None:
        """The title of a session, then its messages as far as they may fit; None: nothing does."""
        if self.on_words is not None:
            _show_words(self.on_words, (subject.fields.title,))
        is_title_worth_it = self._is_title_worth_it(subject.fields.title)
        places = [place for place, some in enumerate(shortlists) if some is not NONE]
        if not is_title_worth_it and not places:
            return None
        finding = SessionHits(subject, room)
        if is_title_worth_it:
            self.look_at_title(finding)
        # Hits are shown in their order: either all of them are known without reading, or none.
        is_sure = all(shortlists[place].exact for place in places)
        for place in places:
            self._look_at_messages(finding, place, shortlists[place], is_sure=is_sure)
        return finding

    def _is_title_worth_it(self, title: str) -> bool:
        """Most titles hold nothing of a query, which is seen quickly."""
        if not self._needs_words:
            return True
        folded = fold(title)
        return any(term.count(title, folded) for term in self._query.terms)

    def look_at_title(self, finding: SessionHits) -> bool:
        """A title counts for ranking; it is a hit unless messages are asked for.

        Whether anything of the query was found in the session so far.
        """
        tally = MatchState(self._query)
        tally.add(finding.session.fields.title)
        finding.hold(dict.fromkeys(tally.found, TITLE_HITS))
        finding.is_in_title = tally.is_match and not self._filters
        finding.is_match = finding.is_match or finding.is_in_title
        return finding.is_match or bool(finding.held)

    def _look_at_messages(
        self, finding: SessionHits, place: int, shortlist: MessageCandidates, *, is_sure: bool
    ) -> None:
        """The messages of a conversation: the session's own, or that of a sub-agent of it."""
        if shortlist.numbers is not None:
            if not shortlist.numbers:
                return
            if is_sure:
                finding.is_match = True
                finding.hit_count += len(shortlist.numbers)
                finding.hold(shortlist.weights)
                finding.pending = (
                    *finding.pending,
                    PendingHits(place, shortlist.numbers, said=shortlist.said),
                )
                return
        known: Known = {}
        for message, found_at in self._candidates(finding, place, shortlist):
            self._look_at_message(finding, message, found_at, known)
        if self._query.said_only or shortlist.numbers is not None:
            return  # whether a long text was said is not known; one that may fit has no number
        conversation = finding.session.message_sources()[place]
        somewhere = HitLocation(session_id=conversation.session_id if place else None)
        for pieces in self._catalog.long_texts(conversation):
            self._look_at_long_text(finding, pieces, somewhere, known)

    def show(self, finding: SessionHits) -> None:
        """Read the first of the hits that were known without reading."""
        if finding.is_in_title:
            title = finding.session.fields.title
            folded = fold(title)
            present = [term for term in self._query.terms if term.count(title, folded)]
            finding.snippet = cut_title(title, present, folded) or None
        for own, numbers, said in _chosen(finding.pending, finding.room):
            self._show_unread(finding, own, numbers, said=said)
        finding.pending = ()

    def _show_unread(
        self,
        finding: SessionHits,
        own: PendingHits,
        numbers: Sequence[int],
        *,
        said: Collection[int],
    ) -> None:
        """Hits of one conversation, cut from where they lie as far as they are still there."""
        shown = 0
        for message, found_at in self._cut(finding, own.position, numbers, own.locations):
            excerpt = excerpt_of(message, self._query)
            if excerpt is None:
                break  # what was cut is not what was indexed
            shown += 1
            finding.show(excerpt, found_at, is_said=found_at.number in said)
        if shown == len(numbers):
            return
        for message, found_at in self._messages(finding, own.position, numbers[shown:]):
            excerpt = excerpt_of(message, self._query)
            if excerpt is not None:  # else the file is another than it was
                finding.show(excerpt, found_at, is_said=found_at.number in said)

    def _cutter(self, agent: str) -> ReadsMessageAt | None:
        """Who reads single messages of an agent, if anybody can."""
        if agent not in self._cutters:
            self._cutters[agent] = cutter_of(self._catalog.adapter(agent))
        return self._cutters[agent]

    def _candidates(
        self, finding: SessionHits, place: int, shortlist: MessageCandidates
    ) -> Iterator[tuple[SessionMessage, HitLocation]]:
        """Messages that may fit, each with its place: cut from where they lie, else read."""
        numbers = None if shortlist.numbers is None else sorted(shortlist.numbers)
        if numbers is not None and shortlist.locations is not None and not self._filters:
            cut = 0
            for found in self._cut(finding, place, numbers, shortlist.locations()):
                yield found
                cut += 1
            numbers = numbers[cut:]
        if numbers != []:
            yield from self._messages(finding, place, numbers)

    def _cut(
        self,
        finding: SessionHits,
        place: int,
        numbers: Sequence[int],
        spots: MessageLocations | None,
    ) -> Iterator[tuple[SessionMessage, HitLocation]]:
        """Messages of these numbers, each with its place, as far as they can be cut."""
        cutter = self._cutter(finding.session.fields.agent)
        if cutter is None or spots is None:
            return
        session_id = finding.session.message_sources()[place].session_id if place else None
        messages = cut_messages(cutter, spots, numbers, tools=not self._query.said_only)
        for number, message in zip(numbers, messages, strict=False):
            yield message, HitLocation(number, message.role, message.timestamp, session_id)

    def _messages(
        self, finding: SessionHits, place: int, numbers: Iterable[int] | None
    ) -> Iterator[tuple[SessionMessage, HitLocation]]:
        """The messages of these numbers, each with its place; reading ends with the last."""
        wanted = None if numbers is None else frozenset(numbers)
        last = None if wanted is None else max(wanted, default=0)
        subject = finding.session
        conversation = subject.message_sources()[place]
        session_id = conversation.session_id if place else None
        messages = self._catalog.searchable(subject.fields.agent, conversation)
        for number, message in enumerate(messages, start=1):
            if wanted is None or number in wanted:
                yield message, HitLocation(number, message.role, message.timestamp, session_id)
            if number == last:
                return

    def _look_at_message(
        self, finding: SessionHits, message: SessionMessage, place: HitLocation, known: Known
    ) -> None:
        if self.on_words is not None:
            _show_words(self.on_words, said_in(message))
        said_only = self._query.said_only
        passages = admitted_passages(self._filters, message, said_only=said_only)
        if passages is None:
            return  # it can be no hit
        tally = MatchState(self._query)
        long: list[str] = []
        for passage in passages:
            tally.add(passage.text, is_said=passage.is_said)
            if len(passage.text) > _LONG:
                long.append(passage.text[:_BEGINNING])
        finding.held.update(tally.found)
        if tally.is_match:
            finding.match(tally, place)
        known.update((beginning, (place, tally.is_match)) for beginning in long)

    def _look_at_long_text(
        self, finding: SessionHits, pieces: Iterator[str], somewhere: HitLocation, known: Known
    ) -> None:
        beginning = next(pieces)
        place, is_hit = known.get(beginning[:_BEGINNING], (somewhere, False))
        if self._filters and place.number is None:
            return  # whether its message passes cannot be known
        tally = MatchState(self._query)
        for window in _marked(chain((beginning,), pieces)):
            tally.add(window.text, is_said=False, cut=window.cut)
        finding.held.update(tally.found)
        if tally.is_match and not is_hit:
            finding.match(tally, place)


def _show_words(show: OnWords, texts: Iterable[str]) -> None:
    for text in texts:
        for window in windows(text):
            show(fold(window.text))


def _chosen(
    unread: Sequence[PendingHits], room: int | None
) -> Iterator[tuple[PendingHits, Sequence[int], Collection[int]]]:
    """The hits to be shown, conversation by conversation, and which of them were said."""
    left = None if room is None else max(room, 1)
    if left is None or not _has_choice(unread, left):
        for own in unread:
            numbers = list(islice(own.numbers, left))
            yield own, numbers, numbers
            left = None if left is None else left - len(numbers)
            if left == 0:
                break
        return
    all_said = [frozenset(own.numbers if own.said is None else own.said()) for own in unread]
    hits = [(at, number) for at, own in enumerate(unread) for number in own.numbers]
    hits.sort(key=lambda hit: hit[1] not in all_said[hit[0]])  # the order is kept otherwise
    for at, own in enumerate(unread):
        numbers = sorted(number for place, number in hits[:left] if place == at)
        if numbers:
            yield own, numbers, all_said[at]


def _has_choice(unread: Sequence[PendingHits], room: int) -> bool:
    """Whether some hits come before others that stand ahead of them."""
    for own in unread:
        if own.said is not None:
            return sum(len(each.numbers) for each in unread) > room
    return False


def _marked(pieces: Iterable[str]) -> Iterator[Window]:
    """The pieces of a text that overlap, each with where it was cut."""
    is_first = True
    for piece, following in pairwise(chain(pieces, (None,))):
        if piece is not None:
            yield Window(piece, (not is_first, following is not None))
        is_first = False
