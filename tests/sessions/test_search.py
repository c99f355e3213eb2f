"""`search`: titles and conversations of all agents, with one matcher and one ranking."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from builders import (
    CAPTURES,
    LARGE,
    SMALL,
    START,
    ClaudeSession,
    SharedHome,
    open_client,
    uuid_of,
    write_claude,
    write_codex,
    write_runs,
)
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux.client import Client
from amux.errors import ValidationError
from amux.model.options import SessionQuery
from amux.model.session import SessionSummary
from amux.model.usage import Tokens
from amux.testing import Capture

TEXTS = [
    "the quick brown fox",
    "quick silver linings",
    "brown bread and quicksand",
    "Crème brûlée at the café",
    "日本語の文章を書く",
    "100%_sure a_b or a%b",
    "call foo.bar() in C++ (really), then say: hello-world",
    "nothing in particular",
]
TABLE: list[tuple[str, set[int]]] = [
    ("quick", {0, 1, 2}),
    ("QUICK", {0, 1, 2}),
    ("quick brown", {0, 2}),
    ('"quick brown"', {0}),
    ("quick NOT brown", {1}),
    ("fox OR silver", {0, 1}),
    ("sand", {2}),
    ("sand*", set()),
    ("quicks*", {2}),
    ("creme", {3}),
    ("CAFÉ", {3}),
    ("日本", {4}),
    ("語", {4}),
    ("文章 日本", {4}),
    ("%", {5}),
    ("a%b", {5}),
    ("_", {5}),
    ("a_b", {5}),
    ("foo.bar", {6}),
    ("c++", {6}),
    ("(really)", {6}),
    ("hello-world", {6}),
    ("/q.ick\\b/", {0, 1}),
    ("/^nothing/", {7}),
    ("absent", set()),
    ("NOT quick", set()),
    ("", set()),
    (" \t\n", set()),
    ('"', set()),
]


def numbers(sessions: list[SessionSummary]) -> list[int]:
    return [int(session.session_id[:8], 16) for session in sessions]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """The texts once per agent; in every session behind a title that says nothing."""
    home = tmp_path_factory.mktemp("library")
    for number, text in enumerate(TEXTS):
        write_claude(home, number, prompt="please", answer=text)
        write_codex(home, number, prompt="please", answer=text)
    return open_client(home)


@pytest.mark.parametrize("agent", ["claude", "codex"])
@pytest.mark.parametrize(("query", "found"), TABLE)
def test_one_table_of_queries_holds_for_every_agent(
    agent: str, query: str, found: set[int], library: Client
) -> None:
    assert set(numbers(library.sessions.search(query, agent=agent))) == found


@drawn(100)
@given(query=st.text(alphabet='"*()/:\\ aqORNTD%_\x00\n', max_size=25) | st.text(max_size=15))
def test_no_query_is_an_error_and_scores_are_in_range(library: Client, query: str) -> None:
    found = library.sessions.search(query)
    scores = [session.relevance_score for session in found]
    assert all(score is not None and 0.0 < score <= 1.0 for score in scores)
    assert not found or scores[0] == 1.0


def test_every_agent_is_searched_and_a_single_one_on_request(library: Client) -> None:
    everywhere = library.sessions.search("fox")
    assert sorted(session.agent for session in everywhere) == ["claude", "codex"]
    assert [s.agent for s in library.sessions.search("fox", agent="codex")] == ["codex"]


def test_an_unknown_agent_has_no_hits(library: Client) -> None:
    assert library.sessions.search("fox", agent="nope") == []


def test_the_defaults_are_those_of_the_specification() -> None:
    query = SessionQuery(text="x")
    assert (query.agent, query.since, query.until, query.model, query.tags) == (None,) * 5
    assert (query.limit, query.sort) == (50, "relevance")


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_hit_in_the_fortieth_message_is_found(agent: str, home: Path) -> None:
    if agent == "claude":
        session = ClaudeSession(home, uuid_of(1))
        for number in range(1, 41):
            session.prompt(f"turn {number}").reply("needle" if number == 20 else "hay")
        session.write()
    else:
        write_codex(home, 1, prompt="turn 1", answer="hay " * 1000 + "needle")
    for number in range(2, 150):
        write_claude(home, number, at=START + timedelta(minutes=number))
    (found,) = open_client(home).sessions.search("needle")
    assert found.unified_id == f"{agent}:{uuid_of(1)}"
    assert "needle" in (found.snippet or "")


def test_a_hit_only_in_the_title_is_found(home: Path) -> None:
    session = write_claude(home, 1)
    session.raw({"type": "custom-title", "customTitle": "Needle work"}).write()
    (found,) = open_client(home).sessions.search("needle")
    assert (found.title, found.snippet) == ("Needle work", "Needle work")


@pytest.mark.parametrize(
    "query", ["thought", "Frobnicate", "in-the-input", "deep", "in-the-output"]
)
def test_thinking_and_tool_traffic_are_searched(query: str, home: Path) -> None:
    session = ClaudeSession(home, uuid_of(1)).prompt("go")
    session.reply("", blocks=[{"type": "thinking", "thinking": "a thought"}])
    session.tool_call("t", {"a": "in-the-input", "b": [{"c": "deep", "d": 1}]}, name="Frobnicate")
    session.tool_result("t", "in-the-output").reply().write()
    (found,) = open_client(home).sessions.search(query)
    assert query in (found.snippet or "")


def test_the_words_of_a_query_must_meet_in_one_message(home: Path) -> None:
    ClaudeSession(home, uuid_of(1)).prompt("alpha").reply("beta").write()
    ClaudeSession(home, uuid_of(2)).prompt("go").reply(
        "alpha", blocks=[{"type": "thinking", "thinking": "beta"}]
    ).write()
    assert numbers(open_client(home).sessions.search("alpha beta")) == [2]


def test_the_snippet_shows_what_was_wanted_not_what_was_not(home: Path) -> None:
    ClaudeSession(home, uuid_of(1)).prompt("go").reply(
        "beta", blocks=[{"type": "thinking", "thinking": "gamma"}]
    ).write()
    (found,) = open_client(home).sessions.search("alpha NOT beta OR gamma")
    assert found.snippet == "gamma"


def test_a_hit_where_two_windows_of_a_huge_text_meet_is_found(home: Path) -> None:
    edge = 1 << 20
    for number, at in enumerate((edge - 3, edge - 1024 - 3, 2 * edge)):
        write_claude(home, number, answer="x" * at + "NEEDLE" + "y" * 100)
    assert sorted(numbers(open_client(home).sessions.search("needle"))) == [0, 1, 2]


@pytest.mark.parametrize(
    "capture",
    [c for c in CAPTURES if any(s["kind"] == "subagent" for s in c.sessions)],
    ids=lambda capture: capture.name,
)
def test_a_hit_inside_a_sub_agent_leads_to_the_session_it_works_for(
    capture: Capture, shared_home: SharedHome
) -> None:
    client = open_client(shared_home(capture))
    for child in (s for s in capture.sessions if s["kind"] == "subagent"):
        said: list[str] = child["user_prompts"] or child["assistant_texts"] or []
        if not said:
            continue
        text = said[0].replace('"', " ")
        found = client.sessions.search(f'"{text}"', agent=capture.agent)
        assert child["parent"] in {session.session_id for session in found}
        assert child["session_id"] not in {session.session_id for session in found}


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: capture.name)
def test_every_prompt_of_a_capture_is_found_where_it_was_typed(
    capture: Capture, shared_home: SharedHome
) -> None:
    client = open_client(shared_home(capture))
    listed = {s.session_id for s in client.sessions.list(capture.agent, limit=None)}
    wanted: dict[str, set[str]] = {}
    for session in capture.sessions:
        accepted: dict[str, list[list[str]]] = session.get("accept") or {}
        prompts: list[str] = session["user_prompts"] or []
        others = accepted.get("user_prompts", [])
        for prompt in prompts:
            if session["session_id"] not in listed or not all(prompt in one for one in others):
                continue  # a rewound prompt may be shown or not
            if len(prompt) < 1000 and '"' not in prompt:
                wanted.setdefault(prompt, set()).add(session["session_id"])
    for prompt, owners in itertools.islice(wanted.items(), 6):
        found = client.sessions.search(f'"{prompt}"', limit=None)
        assert owners <= {session.session_id for session in found}


def test_scores_are_on_hits_and_nowhere_else(library: Client) -> None:
    hits = library.sessions.search("quick brown OR bread")
    assert hits[0].relevance_score == 1.0
    assert all(0.0 < (hit.relevance_score or 0.0) <= 1.0 for hit in hits)
    assert all("relevanceScore" in hit.to_dict() for hit in hits)
    for listed in library.sessions.list("claude"):
        assert not {"relevanceScore", "snippet"} & listed.to_dict().keys()


def test_more_and_rarer_words_rank_higher_whichever_the_agent(home: Path) -> None:
    write_claude(home, 1, answer="common")
    write_codex(home, 2, answer="common rare")
    ClaudeSession(home, uuid_of(3)).prompt("x").reply("common").reply("so common").write()
    write_claude(home, 4, prompt="rare common title", answer="rare")
    found = open_client(home).sessions.search("common OR rare")
    assert numbers(found)[:2] == [4, 2]
    assert numbers(found)[-1] == 1


def test_equally_relevant_sessions_are_ordered_newest_first(home: Path) -> None:
    for number in (3, 1, 2):
        write_claude(home, number, answer="same", at=START + timedelta(days=number))
    assert numbers(open_client(home).sessions.search("same")) == [3, 2, 1]


def test_a_small_limit_gives_the_first_of_a_large_one(home: Path) -> None:
    for number in range(60):
        write_claude(home, number, answer="needle " * (number * 7 % 13 + 1))
    sessions = open_client(home).sessions
    everything = sessions.search("needle", limit=1000)
    assert len(everything) == 60
    assert len(sessions.search("needle")) == 50
    for limit in (0, 1, 7):
        assert sessions.search("needle", limit=limit) == everything[:limit]
    assert sessions.search("needle", limit=None) == everything
    ranks = [session.relevance_score or 0.0 for session in everything]
    assert ranks == sorted(ranks, reverse=True)


FILTERS: dict[str, tuple[dict[str, Any], Callable[[SessionSummary], bool]]] = {
    "none": ({}, lambda _: True),
    "since": ({"since": START + timedelta(hours=3)}, lambda s: s.created_at.hour >= 13),
    "until": ({"until": START + timedelta(hours=5)}, lambda s: s.created_at.hour <= 15),
    "model": ({"model": LARGE}, lambda s: s.model == LARGE),
    "tags": ({"tags": ["a", "c"]}, lambda s: bool({"a", "c"} & set(s.tags))),
    "agent": ({"agent": "claude"}, lambda s: s.agent == "claude"),
}


def test_filters_apply_in_every_combination_and_order(home: Path) -> None:
    for number in range(9):
        write = write_codex if number % 4 == 3 else write_claude
        write(
            home,
            number,
            answer="needle",
            model=(SMALL, LARGE)[number % 2],
            at=START + timedelta(hours=number),
            tokens=Tokens(input=100 * (number * 5 % 9) + 1),
        )
    write_runs(home, *({"sessionId": uuid_of(n), "tags": [tag]} for n, tag in enumerate("abc")))
    sessions = open_client(home).sessions
    everyone = sessions.search("needle")
    assert len(everyone) == 9
    for one, other in itertools.combinations(FILTERS.values(), 2):
        found = sessions.search("needle", **one[0], **other[0])
        fitting = {s.unified_id for s in everyone if one[1](s) and other[1](s)}
        assert {s.unified_id for s in found} == fitting
    by_cost = [s.cost.total_usd for s in sessions.search("needle", sort="cost") if s.cost]
    assert by_cost == sorted(by_cost, reverse=True)
    by_date = [s.created_at for s in sessions.search("needle", sort="date")]
    assert by_date == sorted(by_date, reverse=True)


def test_an_options_object_and_keywords_say_the_same(library: Client) -> None:
    query = SessionQuery(text="quick", agent="claude", sort="date", limit=2)
    sessions = library.sessions
    assert sessions.search(query) == sessions.search("quick", agent="claude", sort="date", limit=2)
    assert len(sessions.search(query, limit=1)) == 1


@pytest.mark.parametrize("given_options", [{"sort": "turns"}, {"limit": -1}, {"since": "soon"}])
def test_options_without_a_usable_value_are_refused(
    given_options: dict[str, Any], library: Client
) -> None:
    with pytest.raises(ValidationError):
        library.sessions.search("x", **given_options)


def test_a_broken_store_does_not_hide_the_hits_of_another(home: Path) -> None:
    write_claude(home, 1, answer="needle")
    write_codex(home, 2).path.write_bytes(b"\xff\x00garbage")
    (home / ".codex" / "session_index.jsonl").write_bytes(b"{broken")
    client = open_client(home)
    assert numbers(client.sessions.search("needle")) == [1]
    report = client.search_report(SessionQuery(text="needle"))
    assert any(str(home / ".codex") in (problem.path or "") for problem in report.problems)


def test_archived_sessions_are_found(copy_capture: Callable[[str], Path]) -> None:
    client = open_client(copy_capture("codex-0.166.0"))
    (archived,) = [s for s in client.sessions.list("codex", include_archived=True) if s.archived]
    found = client.sessions.search(f'"{archived.title}"')
    assert archived.session_id in {session.session_id for session in found}
