"""Reads sessions and finds the messages that match a query.

One message is in memory at a time. A text that is too long for that follows after the messages, in
pieces; its message is found by the beginning of the text, which the message contains too.
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
from amux.sessions.search.match import MatchState, Window, spoken_texts, windows
from amux.sessions.search.message_at import message_reader, read_messages_at
from amux.sessions.search.query.grammar import Query
from amux.sessions.search.searchable import SearchableSession
from amux.sessions.search.snippets import Excerpt, cut_title

_BEGINNING: Final = 1000
_LONG: Final = 1 << 15
"""A text that is cut while messages are read is still longer than this."""

OnWords = Callable[[str], None]
"""Is called with each folded window of text outside tools, whether or not it passes the filters."""

LongTexts = dict[str, tuple[HitLocation, bool]]
"""The locations of long texts by their beginnings, and whether their messages are hits already."""

LocatedMessage = tuple[SessionMessage, HitLocation]


class Scanner:
    """Searches sessions for one query."""

    def __init__(
        self, catalog: SourceCatalog, query: Query, *, on_words: OnWords | None = None
    ) -> None:
        self._catalog = catalog
        self._query = query
        self._filters = query.filters.of_messages
        self.on_words = on_words
        self._needs_words = query.needs_words
        self._readers: dict[str, ReadsMessageAt | None] = {}

    def scan_session(
        self,
        session: SearchableSession,
        candidates: Sequence[MessageCandidates],
        *,
        max_hits: int | None,
    ) -> SessionHits | None:
        """Search the title of a session, then its candidates; return None if nothing can match."""
        title = session.fields.title
        if self.on_words is not None:
            _pass_words(self.on_words, (title,))
        folded = fold(title) if self._needs_words else ""
        is_title_possible = not self._needs_words or any(
            term.count(title, folded) for term in self._query.terms
        )
        positions = [position for position, some in enumerate(candidates) if some is not NONE]
        if not is_title_possible and not positions:
            return None
        hits = SessionHits(session, max_hits)
        if is_title_possible:  # it counts for ranking; it is a hit unless messages are filtered
            state = MatchState(self._query)
            state.add(title)
            hits.add_weights(dict.fromkeys(state.found, TITLE_HITS))
            hits.is_match = hits.is_in_title = state.is_match and not self._filters
        # Hits are shown in their order: either all of them are pending, or none.
        is_exact = all(candidates[position].exact for position in positions)
        for position in positions:
            self._scan_messages(hits, position, candidates[position], is_exact=is_exact)
        return hits

    def _scan_messages(
        self, hits: SessionHits, position: int, candidates: MessageCandidates, *, is_exact: bool
    ) -> None:
        """Search the candidates of the message sources at a position."""
        numbers = candidates.numbers
        if numbers is not None:
            if not numbers:
                return
            if is_exact:
                hits.is_match = True
                hits.hit_count += len(numbers)
                hits.add_weights(candidates.weights)
                pending = PendingHits(position, numbers, spoken=candidates.spoken)
                hits.pending = (*hits.pending, pending)
                return
        long_texts: LongTexts = {}
        for found in self._candidate_messages(hits, position, candidates):
            self._scan_message(hits, found, long_texts)
        if self._query.said_only or numbers is not None:
            return  # the author of a long text is unknown; if one may match, there are no numbers
        sources = hits.session.message_sources()[position]
        unknown = HitLocation(session_id=sources.session_id if position else None)
        for pieces in self._catalog.long_texts(sources):
            self._scan_long_text(hits, pieces, unknown, long_texts)

    def show(self, hits: SessionHits) -> None:
        """Add the title snippet, and read the first of the pending hits."""
        if hits.is_in_title:
            title = hits.session.fields.title
            folded = fold(title)
            present = [term for term in self._query.terms if term.count(title, folded)]
            hits.snippet = cut_title(title, present, folded) or None
        for pending, numbers, spoken in _select(hits.pending, hits.max_hits):
            for excerpt, location in self._excerpts(hits, pending, numbers):
                hits.add_hit(excerpt, location, is_spoken=location.number in spoken)
        hits.pending = ()

    def _excerpts(
        self, hits: SessionHits, pending: PendingHits, numbers: Sequence[int]
    ) -> Iterator[tuple[Excerpt, HitLocation]]:
        """Yield some pending hits, read at their locations if possible, else from the source."""
        count = 0
        for message, location in self._read_at(hits, pending.position, numbers, pending.locations):
            excerpt = excerpt_of(message, self._query)
            if excerpt is None:
                break  # the text at this location is not the indexed one
            count += 1
            yield excerpt, location
        if count < len(numbers):
            for message, location in self._read(hits, pending.position, numbers[count:]):
                excerpt = excerpt_of(message, self._query)
                if excerpt is not None:  # else the file has changed since it was indexed
                    yield excerpt, location

    def _candidate_messages(
        self, hits: SessionHits, position: int, candidates: MessageCandidates
    ) -> Iterator[LocatedMessage]:
        """Yield the candidates, read at their locations if possible, else from the source."""
        numbers = None if candidates.numbers is None else sorted(candidates.numbers)
        if numbers is not None and candidates.locations is not None and not self._filters:
            count = 0
            for found in self._read_at(hits, position, numbers, candidates.locations()):
                yield found
                count += 1
            numbers = numbers[count:]
        if numbers != []:
            yield from self._read(hits, position, numbers)

    def _read_at(
        self,
        hits: SessionHits,
        position: int,
        numbers: Sequence[int],
        locations: MessageLocations | None,
    ) -> Iterator[LocatedMessage]:
        """Yield the messages with these numbers, up to the first that cannot be read directly."""
        agent = hits.session.fields.agent
        if agent not in self._readers:
            self._readers[agent] = message_reader(self._catalog.adapter(agent))
        reader = self._readers[agent]
        if reader is None or locations is None:
            return
        session_id = hits.session.message_sources()[position].session_id if position else None
        messages = read_messages_at(reader, locations, numbers, tools=not self._query.said_only)
        for number, message in zip(numbers, messages, strict=False):
            yield message, HitLocation(number, message.role, message.timestamp, session_id)

    def _read(
        self, hits: SessionHits, position: int, numbers: Iterable[int] | None
    ) -> Iterator[LocatedMessage]:
        """Yield the messages with these numbers (None: all); reading ends with the last of them."""
        wanted = None if numbers is None else frozenset(numbers)
        last = None if wanted is None else max(wanted, default=0)
        sources = hits.session.message_sources()[position]
        session_id = sources.session_id if position else None
        messages = self._catalog.searchable(hits.session.fields.agent, sources)
        for number, message in enumerate(messages, start=1):
            if wanted is None or number in wanted:
                yield message, HitLocation(number, message.role, message.timestamp, session_id)
            if number == last:
                return

    def _scan_message(
        self, hits: SessionHits, found: LocatedMessage, long_texts: LongTexts
    ) -> None:
        message, location = found
        if self.on_words is not None:
            _pass_words(self.on_words, spoken_texts(message))
        said_only = self._query.said_only
        passages = admitted_passages(self._filters, message, said_only=said_only)
        if passages is None:
            return
        state = MatchState(self._query)
        beginnings: list[str] = []
        for passage in passages:
            state.add(passage.text, is_spoken=passage.is_spoken)
            if len(passage.text) > _LONG:
                beginnings.append(passage.text[:_BEGINNING])
        hits.present.update(state.found)
        if state.is_match:
            hits.add_match(state, location)
        long_texts.update((beginning, (location, state.is_match)) for beginning in beginnings)

    def _scan_long_text(
        self, hits: SessionHits, pieces: Iterator[str], unknown: HitLocation, long_texts: LongTexts
    ) -> None:
        beginning = next(pieces)
        location, is_hit = long_texts.get(beginning[:_BEGINNING], (unknown, False))
        if self._filters and location.number is None:
            return  # its message is not known, so the filters cannot be applied
        state = MatchState(self._query)
        for window in _as_windows(chain((beginning,), pieces)):
            state.add(window.text, is_spoken=False, cut=window.cut)
        hits.present.update(state.found)
        if state.is_match and not is_hit:
            hits.add_match(state, location)


def _pass_words(on_words: OnWords, texts: Iterable[str]) -> None:
    for text in texts:
        for window in windows(text):
            on_words(fold(window.text))


def _select(
    pending: Sequence[PendingHits], max_hits: int | None
) -> Iterator[tuple[PendingHits, Sequence[int], Collection[int]]]:
    """Yield the hits to show, with those of their numbers that are spoken."""
    remaining = None if max_hits is None else max(max_hits, 1)
    has_tool_text = any(each.spoken is not None for each in pending)
    count = sum(len(each.numbers) for each in pending)
    if remaining is None or not has_tool_text or count <= remaining:
        for each in pending:
            numbers = list(islice(each.numbers, remaining))
            yield each, numbers, numbers
            remaining = None if remaining is None else remaining - len(numbers)
            if remaining == 0:
                break
        return
    # Spoken hits are preferred to earlier ones in tool text.
    spoken = [frozenset(each.numbers if each.spoken is None else each.spoken()) for each in pending]
    hits = [(at, number) for at, each in enumerate(pending) for number in each.numbers]
    hits.sort(key=lambda hit: hit[1] not in spoken[hit[0]])  # the sort is stable
    for at, each in enumerate(pending):
        numbers = sorted(number for position, number in hits[:remaining] if position == at)
        if numbers:
            yield each, numbers, spoken[at]


def _as_windows(pieces: Iterable[str]) -> Iterator[Window]:
    """Yield overlapping pieces of a text as windows, each with the ends at which it was cut."""
    is_first = True
    for piece, following in pairwise(chain(pieces, (None,))):
        if piece is not None:
            yield Window(piece, (not is_first, following is not None))
        is_first = False
