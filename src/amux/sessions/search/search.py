"""Searches the titles and messages of all agents, with one grammar and one matcher.

A hit is one text (a message with its thinking and tool traffic, or a title) that matches the query.
Hits in sub-agents count for the session they belong to. Candidates (from the text index or an
agent's own index) only limit what is read; they do not affect which sessions are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from amux.model.options import SessionQuery
from amux.model.problems import Problem
from amux.model.reports import SearchReport
from amux.model.session import SessionSummary
from amux.model.words import fold
from amux.reading.sources import SourceCatalog
from amux.sessions.search.candidates import Candidates, CandidatesOf, NativeCandidates
from amux.sessions.search.filters import admits_session
from amux.sessions.search.hits import SessionHits
from amux.sessions.search.indexed_hits import IndexedHitFinder, IndexedHits
from amux.sessions.search.query.filters import filters_of
from amux.sessions.search.query.grammar import Query, parse_query
from amux.sessions.search.query.terms import Term
from amux.sessions.search.ranking import Ranking
from amux.sessions.search.scan import Scanner
from amux.sessions.search.searchable import SearchableSession
from amux.sessions.search.suggest import NearWords, SpokenWords, corrected


@dataclass(frozen=True, slots=True)
class SearchScope:
    """The sessions to search, the problems met while reading them, and what an index offers.

    Without `hit_finder` every session is scanned; without `candidates` every message of it.
    """

    catalog: SourceCatalog
    sessions: Sequence[SearchableSession]
    problems: Callable[[], Iterable[Problem]] = tuple
    candidates: Candidates | None = None
    vocabulary: SpokenWords | None = None
    hit_finder: IndexedHitFinder | None = None


class _Result(NamedTuple):
    """The scanned sessions with any of the terms, those that the index found, and a count.

    `searched` is the number of sessions that passed the filters.
    """

    hits: list[SessionHits]
    searched: int
    indexed: IndexedHits | None

    @property
    def has_match(self) -> bool:
        is_in_index = self.indexed is not None and bool(self.indexed.hits)
        return is_in_index or any(each.is_match for each in self.hits)

    @property
    def present(self) -> set[Term]:
        """The terms that any session contains."""
        present = set[Term]() if self.indexed is None else self.indexed.present
        return present.union(*(each.present for each in self.hits))


class Search:
    """A parsed query, which can be run on the sessions of the agents that it `wants`."""

    def __init__(self, query: SessionQuery, *, now: datetime, zone: tzinfo | None = None) -> None:
        self._options = query
        self._now = now
        self._zone = zone
        self.query = self._parse(query.text)

    def wants(self, agent: str) -> bool:
        """Return whether sessions of an agent can be hits at all."""
        return bool(self.query.alternatives) and self.query.filters.admits_agent(agent)

    def run(self, scope: SearchScope) -> SearchReport:
        """Search the sessions that pass the filters, and rank those with a hit.

        If nothing matches and the query need not be exact, search again for corrected words.
        """
        near = None if self._options.exact else NearWords(self.query)
        result = self._search(scope, self.query, near)
        report = self._report(scope, self.query, result)
        if near is None or result.has_match:
            return report
        guess = self._guess(scope, near, result.present)
        if guess is None:
            return report
        second = self._parse(guess)
        result = self._search(scope, second, None)
        if not result.has_match:
            return replace(report, did_you_mean=guess)
        found = self._report(scope, second, result)
        return replace(found, notes=report.notes, did_you_mean=guess, corrected_to=guess)

    def _parse(self, text: str) -> Query:
        within = filters_of(self._options)
        said_only = self._options.said_only
        return parse_query(text, within=within, said_only=said_only, now=self._now, zone=self._zone)

    def _search(self, scope: SearchScope, query: Query, near: NearWords | None) -> _Result:
        """Search every session that passes the filters, with the index as far as possible."""
        collects_words = bool(near) and scope.vocabulary is None
        on_words = near.read if near and collects_words else None
        scanner = Scanner(scope.catalog, query, on_words=on_words)
        conditions = query.filters.of_sessions
        admitted = scope.sessions if query.alternatives else ()
        if conditions:
            admitted = [each for each in admitted if admits_session(conditions, each.fields)]
        find_hits = None if collects_words else scope.hit_finder
        indexed = None if find_hits is None else find_hits(query)
        if indexed is not None:
            if conditions:
                indexed.restrict(admitted)
            indexed.add_titles()
        provider = scope.candidates or NativeCandidates(scope.catalog)

        @lru_cache
        def candidates_for(agent: str) -> CandidatesOf:
            return provider.candidates_for(agent, query)

        found: list[SessionHits] = []
        for session in admitted if indexed is None else indexed.unresolved:
            agent = session.fields.agent
            candidates = candidates_for(agent)(session) if query.needs_texts else ()
            hits = scanner.scan_session(session, candidates, max_hits=self._options.hits)
            if hits is None:
                continue
            if hits.is_match:
                scanner.on_words = None  # no correction will be needed
            if hits.is_match or hits.present:
                found.append(hits)
        return _Result(found, len(admitted), indexed)

    def _report(self, scope: SearchScope, query: Query, result: _Result) -> SearchReport:
        options = self._options
        ranking = Ranking(result.hits, result.indexed, result.searched, now=self._now)
        shown = ranking.first(options.limit, sort=options.sort, max_hits=options.hits)
        if result.indexed is not None:
            result.indexed.add_pending(shown)
        scanner = Scanner(scope.catalog, query)
        for hits in shown:
            scanner.show(hits)
        return SearchReport(
            sessions=tuple([_summary(hits, query) for hits in shown]),
            problems=tuple(scope.problems()),
            notes=query.notes,
            truncated=ranking.count - len(shown),
        )

    def _guess(self, scope: SearchScope, near: NearWords, present: set[Term]) -> str | None:
        """Return the query with recorded words for absent ones; None if no word is near enough."""
        vocabulary = scope.vocabulary
        if vocabulary is not None:
            near.add(vocabulary.words())
            for session in scope.sessions:
                near.read(fold(session.fields.title))
            if not self.query.filters.of_messages:
                present = present.union(vocabulary.present(self.query))
        replacements = near.replacements(self.query, present)
        return corrected(self._options.text, replacements, now=self._now) if replacements else None


def _summary(hits: SessionHits, query: Query) -> SessionSummary:
    shown = hits.shown
    first = shown[0].snippet if shown else None
    return replace(
        hits.session.summary(),
        relevance_score=hits.relevance,
        snippet=hits.snippet or first,
        hits=() if hits.max_hits == 0 else tuple(shown),
        hit_count=hits.hit_count if query.needs_texts else None,
    )
