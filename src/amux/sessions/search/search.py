"""`search`: one grammar and one matcher for all agents, over titles and whole conversations.

A hit is one text (a message with its thinking and tool traffic, or a title) that satisfies the
query. Hits inside sub-agents count for the session they belong to. Candidates (an index, an agent's
own search) only say where to look; which sessions are found does not depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import NamedTuple

from msgspec.structs import replace

from amux.model.options import SessionQuery
from amux.model.problems import Problem
from amux.model.reports import SearchReport
from amux.model.session import SessionSummary
from amux.model.words import fold
from amux.reading.sources import SourceCatalog
from amux.sessions.search.candidates import (
    Candidates,
    CandidatesOf,
    MessageCandidates,
    NativeCandidates,
)
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
    """Where to look: sessions, what could not be read of them, who has an index of them.

    `worth` knows which sessions a query of words can find at all.
    """

    catalog: SourceCatalog
    sessions: Sequence[SearchableSession]
    problems: Callable[[], Iterable[Problem]] = tuple
    candidates: Candidates | None = None
    vocabulary: SpokenWords | None = None
    hit_finder: IndexedHitFinder | None = None


class _Scan(NamedTuple):
    """What was found: sessions with any of the terms, and how many were looked at.

    `told` are further ones, of which nothing was made yet.
    """

    hits: list[SessionHits]
    looked_at: int
    indexed: IndexedHits | None

    @property
    def has_match(self) -> bool:
        has_told = self.indexed is not None and bool(self.indexed.hits)
        return has_told or any(finding.is_match for finding in self.hits)

    @property
    def held(self) -> set[Term]:
        """The terms that any session has."""
        held = set[Term]() if self.indexed is None else self.indexed.held
        return held.union(*(finding.held for finding in self.hits))


class Search:
    """One query, read once: it says whose sessions it needs, then looks through them."""

    def __init__(self, query: SessionQuery, *, now: datetime, zone: tzinfo | None = None) -> None:
        self._options = query
        self._now = now
        self._zone = zone
        self._parsed = self._parse(query.text)

    @property
    def query(self) -> Query:
        """The query as it was understood."""
        return self._parsed

    def wants(self, agent: str) -> bool:
        """Whether sessions of that agent can be hits at all."""
        return bool(self._parsed.alternatives) and self._parsed.filters.admits_agent(agent)

    def run(self, holdings: SearchScope) -> SearchReport:
        """Look through the sessions that pass the filters; rank those with a hit."""
        near = None if self._options.exact else NearWords(self._parsed)
        scan = self._scan(holdings, self._parsed, near)
        report = self._report(holdings, self._parsed, scan)
        if near is None or scan.has_match:
            return report
        guess = self._guess(holdings, near, scan.held)
        if guess is None:
            return report
        second = self._parse(guess)
        scan = self._scan(holdings, second, None)
        if not scan.has_match:
            return replace(report, did_you_mean=guess)
        found = self._report(holdings, second, scan)
        notes = report.notes
        return replace(found, notes=notes, did_you_mean=guess, corrected_to=guess)

    def _parse(self, text: str) -> Query:
        within = filters_of(self._options)
        said_only = self._options.said_only
        return parse_query(text, within=within, said_only=said_only, now=self._now, zone=self._zone)

    def _scan(self, holdings: SearchScope, query: Query, near: NearWords | None) -> _Scan:
        """What each session that passes the filters holds of the query."""
        listens = bool(near) and holdings.vocabulary is None
        scanner = Scanner(holdings.catalog, query, on_words=near.read if near and listens else None)
        admitted = self._admitted(holdings, query)
        told = None if holdings.hit_finder is None or listens else holdings.hit_finder(query)
        room = self._options.hits
        findings: list[SessionHits] = []
        if told is not None:
            if query.filters.of_sessions:
                told.restrict(admitted)
            told.add_titles()
        propose = _CandidateCache(holdings, query)
        for subject in admitted if told is None else told.rest:
            finding = scanner.look_at(subject, propose(subject), room=room)
            if finding is None:
                continue
            if finding.is_match:
                scanner.on_words = None  # nothing will have to be guessed
            if finding.is_match or finding.held:
                findings.append(finding)
        return _Scan(findings, len(admitted), told)

    def _admitted(self, holdings: SearchScope, query: Query) -> Sequence[SearchableSession]:
        """The sessions that pass the filters."""
        conditions = query.filters.of_sessions
        if not query.alternatives:
            return ()
        if not conditions:
            return holdings.sessions
        return [each for each in holdings.sessions if admits_session(conditions, each.fields)]

    def _report(self, holdings: SearchScope, query: Query, scan: _Scan) -> SearchReport:
        options = self._options
        ranking = Ranking(scan.hits, scan.indexed, scan.looked_at, now=self._now)
        shown = ranking.first(options.limit, sort=options.sort, room=options.hits)
        if scan.indexed is not None:
            scan.indexed.prepare(shown)
        scanner = Scanner(holdings.catalog, query)
        for finding in shown:
            scanner.show(finding)
        return SearchReport(
            sessions=tuple([_summary(finding, query) for finding in shown]),
            problems=tuple(holdings.problems()),
            notes=query.notes,
            truncated=ranking.count - len(shown),
        )

    def _guess(self, holdings: SearchScope, near: NearWords, held: set[Term]) -> str | None:
        """The query with known words in place of unknown ones; None: nothing comes close."""
        known = holdings.vocabulary
        if known is not None:
            near.add(known.words())
            for subject in holdings.sessions:
                near.read(fold(subject.fields.title))
            if not self._parsed.filters.of_messages:
                held = held.union(known.held(self._parsed))
        replacements = near.replacements(self._parsed, held)
        return corrected(self._options.text, replacements, now=self._now) if replacements else None


class _CandidateCache:
    """Asks the candidates of each agent, once there is a session of it."""

    def __init__(self, holdings: SearchScope, query: Query) -> None:
        self._candidates = holdings.candidates or NativeCandidates(holdings.catalog)
        self._query = query
        self._needs_texts = query.needs_texts
        self._by_agent: dict[str, CandidatesOf] = {}

    def __call__(self, subject: SearchableSession) -> Sequence[MessageCandidates]:
        if not self._needs_texts:
            return ()
        agent = subject.fields.agent
        propose = self._by_agent.get(agent)
        if propose is None:
            propose = self._by_agent[agent] = self._candidates.candidates_for(agent, self._query)
        return propose(subject)


def _summary(finding: SessionHits, query: Query) -> SessionSummary:
    shown = finding.shown
    first = shown[0].snippet if shown else None
    return replace(
        finding.session.summary(),
        relevance_score=finding.relevance,
        snippet=finding.snippet or first,
        hits=() if finding.room == 0 else tuple(shown),
        hit_count=finding.hit_count if query.needs_texts else None,
    )
