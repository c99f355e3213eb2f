"""The hits that a search shows of a session are its best messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from builders import (
    CAPTURES,
    NOW,
    START,
    ClaudeSession,
    SharedHome,
    open_client,
    uuid_of,
    write_claude,
)
from hypothesis import given
from hypothesis import strategies as st
from search_scope import scope_of, search

from amux.assembly.session import MessageSources
from amux.model.message import SessionMessage
from amux.model.options import SessionQuery
from amux.model.reports import SearchReport
from amux.model.session import SearchHit, Session
from amux.reading.sources import SourceCatalog
from amux.sessions.search.candidates import CandidatesOf, MessageCandidates
from amux.sessions.search.filters import admitted_passages
from amux.sessions.search.match import MatchState
from amux.sessions.search.query.grammar import Query
from amux.sessions.search.query.terms import Term
from amux.sessions.search.recency import OLDEST, recency
from amux.testing import Capture


def with_children(session: Session) -> Iterator[Session]:
    yield session
    for child in session.children:
        yield from with_children(child)


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: capture.name)
def test_the_number_of_a_hit_is_that_of_the_message_in_the_session(
    capture: Capture, shared_home: SharedHome
) -> None:
    client = open_client(shared_home(capture))
    for found in client.sessions.search("/(?s)./", hits=None, limit=None):
        session = client.sessions.get(found.agent, found.session_id)
        members = {member.session_id: member for member in with_children(session)}
        assert found.hit_count == len(found.hits)
        for hit in found.hits:
            member = members[hit.session_id or session.session_id]
            assert hit.message_number is not None
            message = member.messages[hit.message_number - 1]
            assert (hit.role, hit.at) == (message.role, message.timestamp)
            beginning = " ".join(message.content.split())[:40]
            assert not beginning or hit.snippet.startswith(beginning)


def test_of_many_hits_the_first_are_shown(home: Path) -> None:
    session = ClaudeSession(home, uuid_of(1))
    for number in range(10):
        session.prompt("needle?" if number == 7 else "go").reply("needle" if number else "hay")
    session.write()
    sessions = open_client(home).sessions
    (found,) = sessions.search("needle")
    assert found.hit_count == 10
    assert [hit.message_number for hit in found.hits] == [4, 6, 8]
    (found,) = sessions.search("needle", hits=1)
    assert [hit.message_number for hit in found.hits] == [4]
    (found,) = sessions.search("needle", hits=0)
    assert (found.hits, found.hit_count, found.snippet) == ((), 10, "needle")
    (found,) = sessions.search("needle", hits=None)
    assert len(found.hits) == 10


def test_spoken_text_is_shown_before_tool_text(home: Path) -> None:
    session = ClaudeSession(home, uuid_of(1)).prompt("go")
    session.tool_call("t", {"command": "needle"}).tool_result("t", "needle needle")
    session.reply("needle").prompt("the needle").write()
    for shown, numbers in ((1, [4]), (2, [4, 5]), (3, [2, 4, 5]), (4, [2, 3, 4, 5])):
        (found,) = open_client(home).sessions.search("needle", hits=shown)
        assert [hit.message_number for hit in found.hits] == numbers


def test_a_hit_has_a_time_and_its_words_marked(home: Path) -> None:
    write_claude(home, 1, prompt="Where is the Nädel  in the hay?")
    (found,) = open_client(home).sessions.search("nadel hay")
    (hit,) = found.hits
    assert (hit.message_number, hit.role, hit.at, hit.session_id) == (1, "user", START, None)
    assert hit.snippet == "Where is the Nädel in the hay?"
    assert [hit.snippet[start:end] for start, end in hit.ranges] == ["Nädel", "hay"]
    assert found.to_dict()["hits"] == [
        {
            "snippet": hit.snippet,
            "messageNumber": 1,
            "role": "user",
            "at": "2026-03-01T10:00:00Z",
            "ranges": [[13, 18], [26, 29]],
        }
    ]


def test_a_text_too_long_to_be_held_is_a_hit_of_its_message(home: Path) -> None:
    far = "log line " * 700_000 + "NEEDLE at the end"
    session = ClaudeSession(home, uuid_of(1)).prompt("go").reply("ok")
    session.prompt(far).reply("done").write()
    sessions = open_client(home).sessions
    (found,) = sessions.search("needle")
    (hit,) = found.hits
    assert (hit.message_number, hit.role, found.hit_count) == (3, "user", 1)
    assert "NEEDLE at the end" in hit.snippet
    assert len(sessions.search("needle role:user")) == 1
    assert sessions.search("needle role:assistant") == []
    (found,) = sessions.search('"log line"')
    assert found.hit_count == 1, "its beginning was a hit already"


# Recency


@given(days=st.floats(-1000, 5000))
def test_age_counts_gently_and_never_below_a_quarter(days: float) -> None:
    then = NOW - timedelta(days=days)
    assert OLDEST <= recency(then, NOW) <= 1.0
    assert recency(then - timedelta(days=1), NOW) <= recency(then, NOW)


def test_recency_is_half_after_half_a_year() -> None:
    assert recency(NOW, NOW) == 1.0
    assert recency(NOW - timedelta(days=180), NOW) == pytest.approx(0.5)
    assert recency(NOW - timedelta(days=3600), NOW) == OLDEST


def test_of_two_alike_the_newer_is_more_relevant_and_much_more_of_it_beats_age(home: Path) -> None:
    write_claude(home, 1, answer="needle", at=NOW - timedelta(days=400))
    write_claude(home, 2, answer="needle", at=NOW - timedelta(days=2))
    write_claude(home, 3, prompt="needle needle", answer="needle", at=NOW - timedelta(days=30))
    found = open_client(home).sessions.search("needle")
    assert [int(session.session_id[:8], 16) for session in found] == [3, 2, 1]
    assert found[0].relevance_score == 1.0
    assert [s.relevance_score for s in found] == sorted(
        (s.relevance_score or 0.0 for s in found), reverse=True
    )


def test_the_report_says_how_many_the_limit_cut_off(home: Path) -> None:
    for number in range(5):
        write_claude(home, number, answer="needle")
    client = open_client(home)
    assert client.search_report(SessionQuery(text="needle", limit=2)).truncated == 3
    assert client.search_report(SessionQuery(text="needle", limit=None)).truncated == 0


# Candidates: an index proposes, and what is found stays the same.


class ReadBefore:
    """An index in the simplest form: it reads everything and matches it again.

    Not exact, it proposes more than fits: also the message before each one that does.
    """

    def __init__(self, library: SourceCatalog, *, exact: bool) -> None:
        self._library = library
        self._exact = exact
        self.asked = 0

    def candidates_for(self, agent: str, query: Query) -> CandidatesOf:
        def shortlist(conversation: MessageSources) -> MessageCandidates:
            self.asked += 1
            numbers: set[int] = set()
            weights: dict[Term, float] = {}
            messages = self._library.searchable(agent, conversation)
            for number, message in enumerate(messages, start=1):
                tally = _tally(query, message)
                if tally is not None and tally.is_match:
                    numbers |= {number} if self._exact else {max(1, number - 1), number}
                    for term in tally.found:
                        weights[term] = weights.get(term, 0.0) + 1
            if not self._exact:
                return MessageCandidates(numbers=numbers)
            return MessageCandidates(numbers=numbers, exact=True, weights=weights)

        return lambda subject: [shortlist(each) for each in subject.message_sources()]


def _tally(query: Query, message: SessionMessage) -> MatchState | None:
    passages = admitted_passages(query.filters.of_messages, message)
    if passages is None:
        return None
    tally = MatchState(query)
    for passage in passages:
        tally.add(passage.text, is_spoken=passage.is_spoken)
    return tally


QUERIES = ["hello", "hello OR file NOT the", "tool:Bash", "role:user is", '"hello txt"']


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("query", QUERIES)
def test_with_and_without_candidates_the_same_is_found(
    exact: bool, query: str, shared_home: SharedHome
) -> None:
    capture = next(one for one in CAPTURES if any(s["kind"] == "subagent" for s in one.sessions))
    scope = scope_of(shared_home(capture))
    candidates = ReadBefore(scope.catalog, exact=exact)
    plain = search(scope, query, hits=None)
    indexed = search(replace(scope, candidates=candidates), query, hits=None)
    assert candidates.asked
    assert shown(indexed) == shown(plain)
    assert plain.sessions


def shown(report: SearchReport) -> dict[str, tuple[int | None, tuple[SearchHit, ...]]]:
    return {each.unified_id: (each.hit_count, each.hits) for each in report.sessions}


def test_messages_that_are_no_candidates_are_not_looked_at(home: Path) -> None:
    class Nothing:
        def candidates_for(self, agent: str, query: Query) -> CandidatesOf:
            return lambda _: [MessageCandidates(numbers=())]

    write_claude(home, 1, prompt="needle", answer="needle in the answer")
    scope = scope_of(home, candidates=Nothing())
    (found,) = search(scope, "needle").sessions
    assert (found.title, found.hit_count) == ("needle", 0), "titles are no business of an index"
    assert search(scope, "answer").sessions == ()


def test_the_starred_filter_uses_the_annotations(home: Path) -> None:
    for number in (1, 2):
        write_claude(home, number, answer="needle")
    starred, other = f"claude:{uuid_of(2)}", f"claude:{uuid_of(1)}"
    client = open_client(home)
    client.annotations.star(starred)

    def found(text: str, **more: Any) -> list[str]:
        return [each.unified_id for each in client.sessions.search(text, **more)]

    assert found("is:starred") == found("needle", starred=True) == [starred]
    assert found("needle -is:starred") == [other]
