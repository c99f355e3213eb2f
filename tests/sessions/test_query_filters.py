"""Search filters: their syntax, and their effect compared with a second, naive evaluation."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from builders import (
    LARGE,
    NOW,
    SMALL,
    START,
    ClaudeSession,
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
from amux.sessions.search.filters import mentioned_paths
from amux.sessions.search.query.grammar import Query, parse_query
from amux.sessions.search.query.terms import Term


def parsed(text: str) -> Query:
    return parse_query(text, now=NOW, zone=UTC)


def conditions(text: str) -> list[tuple[str, str, bool]]:
    """Kind, value and whether it is negated, of every filter."""
    return [
        (condition.kind, condition.value, is_negated)
        for clause in parsed(text).filters.clauses
        for is_negated, group in ((False, clause.wanted), (True, clause.unwanted))
        for condition in group
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("agent:claude", [("agent", "claude", False)]),
        ("agent:Claude", [("agent", "claude", False)]),
        ('project:"my Shop"', [("project", "my shop", False)]),
        ('project:"my shop', [("project", "my shop", False)]),
        ("-tool:Bash", [("tool", "bash", True)]),
        ("NOT tool:Bash", [("tool", "bash", True)]),
        ("NOT -tool:Bash", [("tool", "bash", True)]),
        ("is:error", [("error", "", False)]),
        ("is:starred", [("starred", "", False)]),
        ("role:thinking", [("role", "thinking", False)]),
        ("file:src/x.py", [("file", "src/x.py", False)]),
        ("(tag:x)", [("tag", "x", False)]),
        ("tool:a tool:b", [("tool", "a", False), ("tool", "b", False)]),
        ("model:opus model:gpt-5", [("model", "opus", False), ("model", "gpt-5", False)]),
        ("x AND agent:claude OR y", [("agent", "claude", False)]),
    ],
)
def test_a_filter_is_a_key_a_colon_and_a_value(
    text: str, found: list[tuple[str, str, bool]]
) -> None:
    assert conditions(text) == found
    assert parsed(text).notes == ()


@pytest.mark.parametrize(
    "text", ["foo:bar", "http://x", "a:b:c", "Agent:x", "xagent:y", "std::vector", "12:30", ":x"]
)
def test_an_unknown_key_is_ordinary_text(text: str) -> None:
    assert parsed(text) == Query(parse_query(text).alternatives)
    assert [term.text for term in parsed(text).terms] == [text.lower()]


@pytest.mark.parametrize(
    "text",
    [
        "since:yesterdayish",
        "until:soon",
        "is:nice",
        "role:boss",
        "agent:",
        "file:",
        "since:99999999999d",
    ],
)
def test_a_value_that_cannot_be_used_makes_it_text_and_a_note(text: str) -> None:
    query = parsed(text)
    assert (query.terms, query.filters.clauses) == ((Term("text", text),), ())
    (note,) = query.notes
    assert note.startswith(f"`{text}` ")
    assert note.endswith("searched for as text")


def test_an_empty_value_in_quotes_is_no_filter() -> None:
    query = parsed('tool:""')
    assert (query.terms, len(query.notes)) == ((Term("text", "tool:"),), 1)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("since:7d", NOW - timedelta(days=7)),
        ("since:2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
        ("until:2026-03-01", datetime(2026, 3, 2, tzinfo=UTC) - timedelta(microseconds=1)),
        ('since:"2026-03-01T10:00"', datetime(2026, 3, 1, 10, tzinfo=UTC)),
    ],
)
def test_times_are_those_of_the_clock_and_the_zone_that_are_given(
    text: str, moment: datetime
) -> None:
    (clause,) = parsed(text).filters.clauses
    assert clause.wanted[0].moment == moment
    (there,) = parse_query(text, now=NOW, zone=ZoneInfo("Asia/Tokyo")).filters.clauses
    shift = timedelta() if text == "since:7d" else timedelta(hours=-9)
    assert there.wanted[0].moment == moment + shift


def test_a_query_of_filters_alone_fits_every_text_and_one_of_nothing_none() -> None:
    assert parsed("agent:claude").matches(set())
    assert parsed("-agent:claude").matches(set())
    assert not parsed("").matches(set())
    assert not parsed("NOT x").matches(set())
    without = parsed("agent:claude NOT x")
    assert without.matches(set())
    assert not without.matches({Term("text", "x")})


KEYS = ["agent", "project", "model", "tool", "file", "role", "is", "since", "until", "tag", "foo"]
PIECES = st.one_of(
    st.tuples(st.sampled_from(["", "-", "NOT "]), st.sampled_from(KEYS), st.text(max_size=8)).map(
        lambda one: f"{one[0]}{one[1]}:{one[2]}"
    ),
    st.text(alphabet='":-()/* \\nORANDT', max_size=8),
)


@drawn(300)
@given(pieces=st.lists(PIECES, max_size=5))
def test_every_text_is_a_query_whatever_filters_it_seems_to_hold(pieces: list[str]) -> None:
    query = parsed(" ".join(pieces))
    assert isinstance(query.matches(set(query.terms)), bool)
    if query.filters.clauses:
        assert query.alternatives


# What passes


class Made:
    """Sessions that differ in everything a filter asks for."""

    def __init__(self, home: Path) -> None:
        self.home = home
        for number in range(8):
            self._write(number)
        runs = ({"sessionId": uuid_of(n), "tags": ["Red" if n % 2 else "blue"]} for n in range(8))
        write_runs(home, *runs)
        self.client: Client = open_client(home)

    def _write(self, number: int) -> None:
        at = START + timedelta(days=number)
        cwd = "/home/me/work/my-shop" if number & 1 else "/home/me/site"
        model = LARGE if number & 2 else SMALL
        if number & 4:
            write_codex(self.home, number, prompt="find the needle", cwd=cwd, at=at, model=model)
            return
        session = ClaudeSession(self.home, uuid_of(number), cwd=cwd, at=at)
        session.prompt("find the needle").reply("a needle", model=model).write()

    def found(self, text: str, **more: Any) -> set[int]:
        sessions = self.client.sessions.search(text, limit=None, **more)
        return {int(session.session_id[:8], 16) for session in sessions}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("made"))


Fits = Callable[[int], bool]
SESSION_FILTERS: dict[str, Fits] = {
    "agent:codex": lambda n: n >= 4,
    "project:shop": lambda n: n % 2 == 1,
    "project:work/my": lambda n: n % 2 == 1,
    "project:/home/me/site": lambda n: n % 2 == 0,
    "project:me": lambda n: False,
    "model:LARGE": lambda n: n & 2 == 2,
    "model:m-": lambda n: True,
    "since:2026-03-04": lambda n: n >= 3,
    "until:2026-03-06": lambda n: n <= 5,
    "tag:red": lambda n: n % 2 == 1 and n < 4,
    "is:starred": lambda n: False,
}


@pytest.mark.no_cover
@pytest.mark.parametrize("words", ["", "needle "])
def test_filters_of_sessions_pass_alone_and_in_every_pair(made: Made, words: str) -> None:
    for (one, fits), (other, also) in itertools.product(SESSION_FILTERS.items(), repeat=2):
        is_same_kind = one.split(":")[0] == other.split(":")[0]
        both = {
            n for n in range(8) if (fits(n) or also(n) if is_same_kind else fits(n) and also(n))
        }
        assert made.found(f"{words}{one} {other}") == both, (one, other)
        neither = {n for n in range(8) if not fits(n) and not also(n)}
        assert made.found(f"{words}-{one} NOT {other}") == neither, (one, other)


def test_the_fields_of_a_query_narrow_what_its_text_says(made: Made) -> None:
    assert made.found("agent:codex needle", agent="claude") == set()
    assert made.found("needle", projects=["shop", "nope"], agent="claude") == {1, 3}
    assert made.found("needle", model="m-lar") == set(), "a field means the whole name"
    assert made.found("needle", model=LARGE, agent="codex") == {6, 7}
    assert made.found("needle", tags=["red"]) == set(), "and this very tag"
    assert made.found("", agent="claude") == set(), "an agent alone is no query"
    assert made.found("", projects=["site"]) == {0, 2, 4, 6}


def test_agents_that_cannot_fit_are_not_read(made: Made) -> None:
    report = made.client.search_report(SessionQuery(text="needle agent:nobody"))
    assert (report.sessions, len(report.notes)) == ((), 1)
    assert report.notes[0].startswith("no agent is called `nobody`")


def test_a_role_that_does_not_exist_is_refused_as_a_field(made: Made) -> None:
    with pytest.raises(ValidationError):
        made.found("x", roles=["boss"])
    with pytest.raises(ValidationError):
        made.found("x", hits=-1)


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """One session in which every message says `needle` and differs otherwise."""
    home = tmp_path_factory.mktemp("talk")
    session = ClaudeSession(home, uuid_of(1)).prompt("a needle please")  # 1
    session.reply("a needle", blocks=[{"type": "thinking", "thinking": "needle deep"}])  # 2
    session.tool_call("t1", {"command": "grep needle src/x.py"}, name="Bash")  # 3
    session.tool_result("t1", "needle found")  # 4
    session.tool_call(
        "t2", {"file_path": "/src/Tests/Y.py", "content": "needle"}, name="Write"
    )  # 5
    failed = {"type": "tool_result", "tool_use_id": "t2", "content": "no needle", "is_error": True}
    session.line("user", message={"role": "user", "content": [failed]})  # 6
    session.reply("needle done").write()  # 7
    write_claude(home, 2, prompt="nothing", answer="here")
    return open_client(home)


MESSAGE_FILTERS: dict[str, set[int]] = {
    "role:user": {1},
    "role:assistant": {2, 3, 5, 7},
    "role:tool": {4, 6},
    "role:system": set(),
    "role:thinking": {2},
    "tool:bash": {3, 4},
    "tool:Write": {5, 6},
    "tool:ba": set(),
    "file:src/x.py": {3},
    "file:tests/y": {5},
    "file:.py": {3, 5},
    "is:error": {5, 6},
}


def numbers(client: Client, text: str, **more: Any) -> set[int]:
    found: list[SessionSummary] = client.sessions.search(text, hits=None, **more)
    return {hit.message_number or 0 for session in found for hit in session.hits}


@pytest.mark.parametrize("words", ["", "needle "])
def test_filters_of_messages_choose_which_can_be_hits(talk: Client, words: str) -> None:
    everything = set(range(1, 8))
    assert numbers(talk, "needle") == everything
    for one, fitting in MESSAGE_FILTERS.items():
        found = numbers(talk, f"agent:claude {words}{one}")
        assert {n for n in found if n != 0} - _of_the_other(words, one) == fitting, one


def _of_the_other(words: str, one: str) -> set[int]:
    """Without words, the second session fits too: it has a prompt and an answer."""
    if words:
        return set()
    return {"role:user": {1}, "role:assistant": {2}}.get(one, set()) - MESSAGE_FILTERS[one]


@pytest.mark.no_cover
def test_filters_of_messages_in_every_pair(talk: Client) -> None:
    for (one, fits), (other, also) in itertools.product(MESSAGE_FILTERS.items(), repeat=2):
        is_same_kind = one.split(":")[0] == other.split(":")[0]
        both = fits | also if is_same_kind else fits & also
        if "thinking" in one + other and not is_same_kind:
            continue  # asks for a part of a message
        assert numbers(talk, f"needle {one} {other}") == both, (one, other)


def test_thinking_is_a_role_of_its_own_and_part_of_its_message(talk: Client) -> None:
    assert numbers(talk, "deep role:thinking") == {2}
    assert numbers(talk, "deep role:assistant") == {2}
    assert numbers(talk, "please role:thinking") == set()
    assert numbers(talk, "deep -role:thinking") == set()
    assert numbers(talk, "needle -role:thinking") == set(range(1, 8))


def test_negated_filters_of_messages_leave_out(talk: Client) -> None:
    assert numbers(talk, "needle -tool:bash -is:error") == {1, 2, 7}
    assert numbers(talk, "needle role:assistant -tool:write") == {2, 3, 7}
    assert numbers(talk, "tool:bash -grep") == {4}


def test_the_fields_choose_messages_too(talk: Client) -> None:
    assert numbers(talk, "", tools=["Bash", "Write"]) == {3, 4, 5, 6}
    assert numbers(talk, "needle", tools=["Bash"], roles=["tool"]) == {4}
    assert numbers(talk, "needle", errors=True, files=["y.py"]) == {5}
    assert numbers(talk, "NOT grep", tools=["Bash"]) == {4}


def test_filters_on_messages_exclude_titles(home: Path) -> None:
    write_claude(home, 1).raw({"type": "custom-title", "customTitle": "Needle work"}).write()
    sessions = open_client(home).sessions
    assert len(sessions.search("needle")) == 1
    assert sessions.search("needle role:user") == []


def test_a_query_of_filters_only_returns_no_hits(made: Made) -> None:
    (first, *_) = made.client.sessions.search("agent:claude")
    assert (first.hits, first.hit_count) == ((), None)
    assert first.relevance_score == 1.0


# Paths in the input of tools


@pytest.mark.parametrize(
    ("given_input", "paths"),
    [
        ({"file_path": "/a/b c.py"}, ["/a/b c.py"]),
        ({"filePath": "x"}, ["x"]),
        ({"paths": ["x", "y"]}, ["x", "y"]),
        ({"command": "cat src/x.py > 'out.txt' && ls -la"}, ["src/x.py", "out.txt"]),
        ({"command": ["bash", "-lc", "sed -n 1,5p ./run.sh"]}, ["./run.sh"]),
        ({"command": "tool --file=src/x.py"}, ["src/x.py"]),
        ({"url": "https://example.org/a.py"}, []),
        ({"path": "x", "content": "see src/other.py"}, ["x"]),
        ({"old_string": "a/b", "new_string": "c/d", "file": "e"}, ["e"]),
        ("*** Begin Patch\n*** Update File: src/x.py\n@@\n-a/b\n+c/d\n*** End Patch", ["src/x.py"]),
        ({"patch": "--- a/x.py\n+++ b/y.py\n@@"}, ["x.py", "y.py"]),
        ({"edits": [{"notebook_path": "n.ipynb", "text": "z.py"}]}, ["n.ipynb"]),
        (None, []),
        (7, []),
    ],
)
def test_the_paths_a_tool_is_given(given_input: Any, paths: list[str]) -> None:
    assert list(mentioned_paths(given_input)) == paths


@given(
    value=st.recursive(
        st.none() | st.text() | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_input_of_a_tool_can_be_looked_at(value: Any) -> None:
    assert all(isinstance(path, str) for path in mentioned_paths(value))
