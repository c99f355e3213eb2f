"""`search`: one grammar and one matcher for all agents, over titles and whole conversations.

A hit is one text (a message with its thinking and tool traffic, or a title) that satisfies the
query. Hits inside sub-agents count for the session they belong to. Candidates (an index, an agent's
own search) only say where to look; which sessions are found does not depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from amux.model.options import SessionQuery
from amux.model.problems import Problem
from amux.model.session import SessionSummary
from amux.sessions.candidates import Candidates, NativeCandidates, Propose, Shortlist
from amux.sessions.did_you_mean import NearWords, Vocabulary, corrected
from amux.sessions.filtering import admits_session
from amux.sessions.findings import Finding
from amux.sessions.library import Library
from amux.sessions.lookup import Worth
from amux.sessions.query import Query, parse_query
from amux.sessions.query_filters import filters_of
from amux.sessions.ranking import first, rank
from amux.sessions.scan import Scanner
from amux.sessions.subjects import Subject


class SearchReport(msgspec.Struct, frozen=True, kw_only=True):
    """Hits, best first, what could not be read on the way, and what became of the query.

    `did_you_mean` is the query with words that occur in place of those that do not. If it has hits,
    it is also `corrected_to`, and the sessions are its. `truncated` is how many the limit cut off.
    """

    sessions: tuple[SessionSummary, ...]
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    did_you_mean: str | None = None
    corrected_to: str | None = None
    truncated: int = 0


@dataclass(frozen=True, slots=True)
class Holdings:
    """Where to look: sessions, what could not be read of them, who has an index of them.

    `worth` knows which sessions a query of words can find at all.
    """

    library: Library
    subjects: Sequence[Subject]
    problems: Callable[[], Iterable[Problem]] = tuple
    candidates: Candidates | None = None
    vocabulary: Vocabulary | None = None
    worth: Worth | None = None


class _Scan(NamedTuple):
    """What was found: sessions with any of the terms, and how many were looked at."""

    findings: list[Finding]
    looked_at: int

    @property
    def has_match(self) -> bool:
        return any(finding.is_match for finding in self.findings)


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

    def run(self, holdings: Holdings) -> SearchReport:
        """Look through the sessions that pass the filters; rank those with a hit."""
        near = None if self._options.exact else NearWords(self._parsed)
        scan = self._scan(holdings, self._parsed, near)
        report = self._report(holdings, self._parsed, scan)
        if near is None or scan.has_match:
            return report
        guess = self._guess(holdings, near, scan.findings)
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
        return parse_query(text, within=filters_of(self._options), now=self._now, zone=self._zone)

    def _scan(self, holdings: Holdings, query: Query, near: NearWords | None) -> _Scan:
        """What each session that passes the filters holds of the query."""
        listens = bool(near) and holdings.vocabulary is None
        scanner = Scanner(holdings.library, query, on_words=near.read if near and listens else None)
        findings: list[Finding] = []
        propose = _Proposals(holdings, query)
        admitted = self._admitted(holdings, query)
        worth = None
        if holdings.worth is not None and not listens and query.needs_words:
            worth = holdings.worth(query)
        for subject in _common(admitted, worth):
            finding = scanner.look_at(subject, propose(subject), room=self._options.hits)
            if finding is None:
                continue
            if finding.is_match:
                scanner.on_words = None  # nothing will have to be guessed
            if finding.is_match or finding.weights:
                findings.append(finding)
        return _Scan(findings, len(admitted))

    def _admitted(self, holdings: Holdings, query: Query) -> Sequence[Subject]:
        """The sessions that pass the filters."""
        conditions = query.filters.of_sessions
        if not query.alternatives:
            return ()
        if not conditions:
            return holdings.subjects
        return [each for each in holdings.subjects if admits_session(conditions, each.traits)]

    def _report(self, holdings: Holdings, query: Query, scan: _Scan) -> SearchReport:
        found = rank(*scan, now=self._now)
        shown = first(found, self._options.limit, sort=self._options.sort)
        scanner = Scanner(holdings.library, query)
        for finding in shown:
            scanner.show(finding)
        return SearchReport(
            sessions=tuple(_summary(finding, query) for finding in shown),
            problems=tuple(holdings.problems()),
            notes=query.notes,
            truncated=len(found) - len(shown),
        )

    def _guess(self, holdings: Holdings, near: NearWords, findings: list[Finding]) -> str | None:
        """The query with known words in place of unknown ones; None: nothing comes close."""
        if holdings.vocabulary is not None:
            near.add(holdings.vocabulary())
        held = {term for finding in findings for term in finding.weights}
        replacements = near.replacements(self._parsed, held)
        return corrected(self._options.text, replacements, now=self._now) if replacements else None


class _Proposals:
    """Asks the candidates of each agent, once there is a session of it."""

    def __init__(self, holdings: Holdings, query: Query) -> None:
        self._candidates = holdings.candidates or NativeCandidates(holdings.library)
        self._query = query
        self._needs_texts = query.needs_texts
        self._by_agent: dict[str, Propose] = {}

    def __call__(self, subject: Subject) -> Sequence[Shortlist]:
        if not self._needs_texts:
            return ()
        agent = subject.traits.agent
        propose = self._by_agent.get(agent)
        if propose is None:
            propose = self._by_agent[agent] = self._candidates.propose(agent, self._query)
        return propose(subject)


def _common(admitted: Sequence[Subject], worth: Collection[Subject] | None) -> Iterable[Subject]:
    """Those that pass the filters and are worth a look; None: all are."""
    if worth is None:
        return admitted
    if len(worth) < len(admitted):
        ids = set(map(id, admitted))
        return [subject for subject in worth if id(subject) in ids]
    ids = set(map(id, worth))
    return [subject for subject in admitted if id(subject) in ids]


def _summary(finding: Finding, query: Query) -> SessionSummary:
    return replace(
        finding.subject.summary(),
        relevance_score=finding.relevance,
        snippet=finding.snippet,
        hits=finding.hits,
        hit_count=finding.hit_count if query.needs_texts else None,
    )
