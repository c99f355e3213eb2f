"""`search`: one grammar and one matcher for all agents, over titles and whole conversations.

A hit is one text (a message with its thinking and tool traffic, or a title) that satisfies the
query. Hits inside sub-agents count for the session they belong to. Candidates (an index, an agent's
own search) only say where to look; which sessions are found does not depend on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

import msgspec
from msgspec.structs import replace

from amux.model.options import SessionQuery
from amux.model.problems import Problem
from amux.model.session import SessionSummary
from amux.sessions.assemble import Assembly
from amux.sessions.candidates import NONE, Candidates, NativeCandidates, Propose
from amux.sessions.costing import Coster
from amux.sessions.did_you_mean import NearWords, Vocabulary, corrected
from amux.sessions.filtering import admits_session
from amux.sessions.findings import Finding
from amux.sessions.library import Library
from amux.sessions.parts import Joined
from amux.sessions.query import Query, parse_query
from amux.sessions.query_filters import filters_of
from amux.sessions.ranking import rank
from amux.sessions.scan import Scanner
from amux.sessions.views import summarize


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
    """Where to look: sessions, what they cost, who has an index of them."""

    library: Library
    assemblies: Sequence[Assembly]
    coster: Coster
    candidates: Candidates | None = None
    vocabulary: Vocabulary | None = None


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
        findings = self._scan(holdings, self._parsed, near)
        report = self._report(holdings, self._parsed, findings)
        if near is None or any(finding.is_match for finding in findings):
            return report
        guess = self._guess(holdings, near, findings)
        if guess is None:
            return report
        second = self._parse(guess)
        findings = self._scan(holdings, second, None)
        if not any(finding.is_match for finding in findings):
            return replace(report, did_you_mean=guess)
        found = self._report(holdings, second, findings)
        notes = report.notes
        return replace(found, notes=notes, did_you_mean=guess, corrected_to=guess)

    def _parse(self, text: str) -> Query:
        return parse_query(text, within=filters_of(self._options), now=self._now, zone=self._zone)

    def _scan(self, holdings: Holdings, query: Query, near: NearWords | None) -> list[Finding]:
        """What each session that passes the filters holds of the query."""
        listens = bool(near) and holdings.vocabulary is None
        scanner = Scanner(holdings.library, query, on_words=near.read if near and listens else None)
        findings: list[Finding] = []
        for assembly in holdings.assemblies if query.alternatives else ():
            propose = _proposals(holdings, assembly, query)
            for session, summary in _admitted(holdings, assembly, query):
                finding = Finding(summary, self._options.hits)
                scanner.look_at_title(finding)
                for member in session.with_children():
                    scanner.look_at_messages(finding, assembly, member, propose(member))
                if finding.is_match:
                    scanner.on_words = None  # nothing will have to be guessed
                findings.append(finding)
        return findings

    def _report(self, holdings: Holdings, query: Query, findings: list[Finding]) -> SearchReport:
        ranked = rank(findings, now=self._now, sort=self._options.sort)
        limit = len(ranked) if self._options.limit is None else self._options.limit
        scanner = Scanner(holdings.library, query)
        shown = ranked[:limit]
        for finding in shown:
            scanner.show(finding)
        return SearchReport(
            sessions=tuple(_summary(finding, query) for finding in shown),
            problems=(
                *(each for assembly in holdings.assemblies for each in assembly.problems),
                *holdings.coster.problems,
            ),
            notes=query.notes,
            truncated=len(ranked) - len(shown),
        )

    def _guess(self, holdings: Holdings, near: NearWords, findings: list[Finding]) -> str | None:
        """The query with known words in place of unknown ones; None: nothing comes close."""
        if holdings.vocabulary is not None:
            near.add(holdings.vocabulary())
        held = {term for finding in findings for term in finding.weights}
        replacements = near.replacements(self._parsed, held)
        return corrected(self._options.text, replacements, now=self._now) if replacements else None


def _proposals(holdings: Holdings, assembly: Assembly, query: Query) -> Propose:
    if not query.needs_texts:
        return lambda _: NONE
    candidates = holdings.candidates or NativeCandidates(holdings.library)
    return candidates.propose(assembly, query)


def _admitted(
    holdings: Holdings, assembly: Assembly, query: Query
) -> Iterator[tuple[Joined, SessionSummary]]:
    for session in assembly.sessions:
        if not session.listed:
            continue
        coster = holdings.coster
        summary = summarize(
            session,
            coster.cost_of(session),
            coster.tags_of(session),
            starred=coster.is_starred(session),
        )
        if admits_session(query.filters.of_sessions, summary):
            yield session, summary


def _summary(finding: Finding, query: Query) -> SessionSummary:
    return replace(
        finding.summary,
        snippet=finding.snippet,
        hits=finding.hits,
        hit_count=finding.hit_count if query.needs_texts else None,
    )
