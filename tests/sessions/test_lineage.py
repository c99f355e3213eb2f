"""The lineage of sessions, and the assignment of every billed call to exactly one of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from builders import START, ClaudeSession, open_client, uuid_of
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st
from memory_adapter import MemoryAdapter, call

from amux.client import Client
from amux.model.facts import Prefix
from amux.model.message import Role
from amux.model.options import SessionListOptions
from amux.model.session import Session, SessionSummary
from amux.model.usage import Call, Tokens

LATER = START + timedelta(hours=1)
EVERYTHING = SessionListOptions(limit=None, include_children=True, include_archived=True)


@pytest.fixture
def memory(tmp_path: Path) -> MemoryAdapter:
    return MemoryAdapter(tmp_path)


def client_of(memory: MemoryAdapter) -> Client:
    client = open_client(memory.root / "home")
    client.adapters.register(memory)
    return client


def inputs(client: Client) -> dict[str, int]:
    """The input tokens billed to each listed session."""
    listed = client.list_report(("memory",), EVERYTHING).sessions
    return {s.session_id: s.cost.input_tokens if s.cost else 0 for s in listed}


def summaries(client: Client) -> dict[str, SessionSummary]:
    listed = client.list_report(("memory",), EVERYTHING).sessions
    return {summary.session_id: summary for summary in listed}


# Copies


def test_a_copied_call_belongs_to_the_recorded_parent_however_late_it_is(
    memory: MemoryAdapter,
) -> None:
    memory.put("fork", call("a"), call("b"), parent="origin", kind="fork")
    memory.put("origin", call("a", at=LATER), at=LATER)
    client = client_of(memory)
    assert inputs(client) == {"origin": 1000, "fork": 1000}
    assert client.sessions.total_cost(agent="memory").input_tokens == 2000
    found = summaries(client)["fork"]
    assert (found.kind, found.parent, found.forked_from) == ("fork", "origin", "origin")


def test_a_call_of_a_grand_parent_is_not_the_parents(memory: MemoryAdapter) -> None:
    memory.put("c", call("a"), call("b"), call("c"), parent="b", kind="fork")
    memory.put("b", call("a"), call("b"), parent="a", kind="fork")
    memory.put("a", call("a"))
    assert inputs(client_of(memory)) == {"a": 1000, "b": 1000, "c": 1000}


def test_without_a_record_the_earliest_holder_owns_a_call(memory: MemoryAdapter) -> None:
    memory.put("late", call("x", at=LATER), unnamed_copies=True)
    memory.put("early", call("x"), unnamed_copies=True)
    assert inputs(client_of(memory)) == {"early": 1000, "late": 0}


def test_a_record_marked_as_a_copy_is_the_copy(memory: MemoryAdapter) -> None:
    memory.put("a-copy", call("x", copied=True), unnamed_copies=True)
    memory.put("original", call("x"), unnamed_copies=True)
    assert inputs(client_of(memory)) == {"a-copy": 0, "original": 1000}


@pytest.mark.parametrize("kind", ["fork", "continuation"])
def test_an_unrecorded_copy_is_found_by_what_it_shares(kind: str, memory: MemoryAdapter) -> None:
    lines: list[tuple[int, Role, str]] = [(1, "user", "begin"), (2, "assistant", "ok")]
    memory.put("old", call("x"), lines=lines, unnamed_copies=True)
    memory.put(
        "new",
        call("x"),
        call("y", at=LATER),
        lines=[*lines, (9, "user", "on")],
        unnamed_copies=True,
        copy_kind=kind,
    )
    client = client_of(memory)
    found = summaries(client)
    assert (found["new"].kind, found["new"].parent) == (kind, "old")
    assert found["new"].forked_from == ("old" if kind == "fork" else None)
    assert found["old"].kind == "session"
    assert inputs(client) == {"old": 1000, "new": 1000}


def test_a_session_continued_after_its_fork_is_still_the_original(memory: MemoryAdapter) -> None:
    shared: list[tuple[int, Role, str]] = [(1, "user", "begin"), (2, "assistant", "ok")]
    told: list[tuple[int, Role, str]] = [*shared, (3, "user", "own bookkeeping"), (9, "user", "on")]
    soon, later = START + timedelta(minutes=1), LATER
    memory.put("old", call("x"), call("z", at=later), lines=told, unnamed_copies=True)
    branch: list[tuple[int, Role, str]] = [*shared, (5, "user", "else")]
    memory.put("new", call("x"), call("y", at=soon), lines=branch, unnamed_copies=True)
    client = client_of(memory)
    assert inputs(client) == {"old": 2000, "new": 1000}
    assert (summaries(client)["new"].parent, summaries(client)["old"].parent) == ("old", None)


def test_the_parent_is_the_session_that_shares_most(memory: MemoryAdapter) -> None:
    def lines(*keys: int) -> list[tuple[int, Role, str]]:
        return [(key, "user", str(key)) for key in keys]

    memory.put("one", call("a"), lines=lines(1, 11), unnamed_copies=True)
    memory.put("two", call("a"), call("b"), lines=lines(1, 2, 12), at=LATER, unnamed_copies=True)
    memory.put(
        "three",
        call("a"),
        call("b"),
        call("c"),
        lines=lines(1, 2, 3),
        at=LATER + timedelta(hours=1),
        unnamed_copies=True,
    )
    found = summaries(client_of(memory))
    assert (found["three"].parent, found["two"].parent, found["one"].parent) == (
        "two",
        "one",
        None,
    )


def test_equal_keys_of_unrelated_sessions_are_two_calls(memory: MemoryAdapter) -> None:
    memory.put("a", call("1"), copy_keys=b"")
    memory.put("b", call("1"), copy_keys=b"")
    assert inputs(client_of(memory)) == {"a": 1000, "b": 1000}


def test_the_owner_takes_over_the_final_figures_from_a_copy(memory: MemoryAdapter) -> None:
    cut = call("x", tokens=Tokens(input=10, output=1), gaps=("call-interrupted",))
    memory.put("origin", cut, unnamed_copies=True)
    memory.put("fork", call("x", tokens=Tokens(input=10, output=90)), parent="origin", kind="fork")
    cost = client_of(memory).sessions.get("memory", "origin").cost
    assert cost is not None
    assert (cost.input_tokens, cost.output_tokens, cost.incomplete) == (10, 90, ())


def test_a_fork_without_calls_of_its_own_still_has_a_model(memory: MemoryAdapter) -> None:
    memory.put("origin", call("x"))
    memory.put("fork", call("x"), parent="origin", kind="fork")
    found = summaries(client_of(memory))["fork"]
    assert (found.model, found.models) == ("m-small", ("m-small",))
    assert found.cost is not None
    assert (found.cost.total_usd, found.cost.incomplete) == (0, ()), "all of it was paid before"


# One session in several places


def test_a_session_in_two_places_counts_each_call_once(memory: MemoryAdapter) -> None:
    short: list[tuple[int, Role, str]] = [(1, "user", "hi")]
    memory.put("twice", call("x"), lines=short, archived=True)
    memory.put("twice", call("x"), call("y"), lines=[*short, (2, "assistant", "ho")])
    client = client_of(memory)
    (found,) = client.sessions.list("memory")
    assert (found.message_count, found.archived) == (2, False)
    assert inputs(client) == {"twice": 2000}
    assert [m.content for m in client.sessions.get("memory", "twice").messages] == ["hi", "ho"]
    assert len(client.sessions.get("memory", "twice").raw["sources"]) == 2


def test_a_rewound_session_shows_the_new_branch_and_bills_both(memory: MemoryAdapter) -> None:
    memory.put(
        "thread",
        call("a"),
        call("lost"),
        rollout="log-1",
        lines=[(1, "user", "first"), (2, "assistant", "one"), (3, "user", "rewound")],
    )
    memory.put(
        "thread",
        call("c"),
        rollout="log-2",
        prefix=Prefix(of="log-1", until=3),
        at=LATER,
        lines=[(3, "user", "second"), (4, "assistant", "two")],
    )
    client = client_of(memory)
    session = client.sessions.get("memory", "thread")
    assert [m.content for m in session.messages] == ["first", "one", "second", "two"]
    (found,) = client.sessions.list("memory")
    assert (found.title, found.turn_count, found.message_count) == ("first", 2, 4)
    assert inputs(client) == {"thread": 3000}


def test_history_by_reference_is_followed_through_several_logs(memory: MemoryAdapter) -> None:
    memory.put("a", lines=[(1, "user", "a1"), (2, "user", "a2"), (3, "user", "a3")])
    memory.put("b", lines=[(3, "user", "b3"), (4, "user", "b4")], prefix=Prefix(of="a", until=3))
    memory.put("c", lines=[(4, "user", "c4")], prefix=Prefix(of="b", until=4))
    client = client_of(memory)
    messages = client.sessions.get("memory", "c").messages
    assert [m.content for m in messages] == ["a1", "a2", "b3", "c4"]
    assert summaries(client)["c"].title == "a1"
    assert summaries(client)["c"].message_count == 4


def test_missing_history_is_reported(memory: MemoryAdapter) -> None:
    memory.put("left", lines=[(5, "user", "go on")], prefix=Prefix(of="gone", until=5))
    session = client_of(memory).sessions.get("memory", "left")
    assert [m.content for m in session.messages] == ["go on"]
    assert [problem.code for problem in session.problems] == ["missing-parent"]


def test_logs_that_refer_to_each_other_do_not_loop(memory: MemoryAdapter) -> None:
    memory.put("a", lines=[(1, "user", "a")], prefix=Prefix(of="b", until=9))
    memory.put("b", lines=[(2, "user", "b")], prefix=Prefix(of="a", until=9))
    client = client_of(memory)
    assert [m.content for m in client.sessions.get("memory", "a").messages] == ["b", "a"]
    assert len(client.sessions.list("memory")) == 2


# Sub-agents


def test_sub_agents_hang_below_their_parent_and_are_billed_to_it(memory: MemoryAdapter) -> None:
    memory.put("main", call("m"), children=("sub",))
    memory.put("sub", call("s"), kind="subagent", parent="main")
    memory.put("subsub", call("t"), kind="subagent", parent="sub", source={"parent": "sub"})
    client = client_of(memory)
    assert [s.session_id for s in client.sessions.list("memory")] == ["main"]
    report = client.list_report(("memory",), SessionListOptions())
    assert report.hidden_children == 2
    assert inputs(client) == {"main": 3000, "sub": 2000, "subsub": 1000}
    assert client.sessions.total_cost(agent="memory").input_tokens == 3000
    assert client.sessions.total_cost(agent="memory").session_count == 1
    (child,) = client.sessions.get("memory", "main").children
    assert (child.session_id, [c.session_id for c in child.children]) == ("sub", ["subsub"])


def test_a_sub_agent_without_its_parent_is_listed_and_billed(memory: MemoryAdapter) -> None:
    memory.put("orphan", call("s"), kind="subagent", parent="gone")
    client = client_of(memory)
    assert client.list_report(("memory",), SessionListOptions()).hidden_children == 1
    assert client.sessions.total_cost(agent="memory").input_tokens == 1000
    assert client.sessions.get("memory", "orphan").parent == "gone"


def test_equal_ids_of_sub_agents_are_distinguished_by_their_parents(memory: MemoryAdapter) -> None:
    for parent in ("p1", "p2"):
        memory.put(parent, call(parent))
        memory.put(
            "1",
            call(f"{parent}/1"),
            kind="subagent",
            parent=parent,
            addressable=False,
            source={"role": "subagent", "parent": parent},
        )
    client = client_of(memory)
    assert inputs(client) == {"p1": 2000, "p2": 2000}
    assert [len(client.sessions.get("memory", p).children) for p in ("p1", "p2")] == [1, 1]


@pytest.mark.parametrize("kind", ["fork", "subagent", "continuation"])
def test_cyclic_parents_do_not_loop_and_lose_no_session(kind: str, memory: MemoryAdapter) -> None:
    memory.put("a", call("x"), call("a"), kind=kind, parent="c")
    memory.put("b", call("x"), call("b"), kind=kind, parent="a")
    memory.put("c", call("x"), call("c"), kind=kind, parent="b")
    memory.put("self", call("s"), kind=kind, parent="self")
    client = client_of(memory)
    assert len(client.list_report(("memory",), EVERYTHING).sessions) == 4
    assert client.sessions.total_cost(agent="memory").input_tokens == 5000
    for name in ("a", "b", "c", "self"):
        assert client.sessions.get("memory", name).session_id == name


def test_a_missing_parent_of_a_fork_changes_nothing_else(memory: MemoryAdapter) -> None:
    memory.put("fork", call("x"), kind="fork", parent="gone")
    client = client_of(memory)
    found = summaries(client)["fork"]
    assert (found.kind, found.forked_from) == ("fork", "gone")
    assert inputs(client) == {"fork": 1000}


def test_forks_of_a_lost_parent_count_the_calls_they_copied_once(memory: MemoryAdapter) -> None:
    no_keys: dict[str, Any] = {"kind": "fork", "copy_keys": b""}
    memory.put("late", call("x", at=LATER), call("l"), parent="gone", at=LATER, **no_keys)
    memory.put("early", call("x"), call("e"), parent="gone", **no_keys)
    memory.put("other", call("x"), parent="gone too", **no_keys)
    client = client_of(memory)
    assert inputs(client) == {"early": 2000, "late": 1000, "other": 1000}
    for name in ("early", "late"):
        assert client.sessions.get("memory", name).cost == summaries(client)[name].cost


def test_calls_of_no_session_are_summed_apart_and_never_listed(memory: MemoryAdapter) -> None:
    memory.put("real", call("r"))
    memory.put("warm-up", call("w"), call("v", model="m-none"), attributed=False)
    client = client_of(memory)
    assert inputs(client) == {"real": 1000}
    total = client.sessions.total_cost(agent="memory", group_by="agent")
    assert (total.input_tokens, total.session_count) == (3000, 1)
    assert total.unattributed is not None
    assert total.unattributed.input_tokens == 2000
    assert total.unattributed.incomplete == ("unpriced-model",)
    assert client.sessions.total_cost(agent="memory", tags=["t"]).input_tokens == 0
    assert client.sessions.total_cost(agent="memory", since=LATER).input_tokens == 0


# Names


def test_a_given_name_goes_before_a_noted_title_and_that_before_the_prompt(home: Path) -> None:
    def titled(number: int, *extra: dict[str, str]) -> str:
        session = ClaudeSession(home, uuid_of(number)).prompt("the prompt").reply()
        for line in extra:
            session.raw({**line, "leafUuid": f"{uuid_of(number)}/2"})
        session.write()
        return open_client(home).sessions.get("claude", uuid_of(number)).title

    summary = {"type": "summary", "summary": "noted"}
    assert titled(1) == "the prompt"
    assert titled(2, summary) == "noted"
    assert titled(3, summary, {"type": "custom-title", "customTitle": "given"}) == "given"


def test_a_title_noted_in_another_file_is_found(home: Path) -> None:
    ClaudeSession(home, uuid_of(1)).prompt("the prompt").reply().write()
    other = ClaudeSession(home, uuid_of(2))
    other.raw({"type": "summary", "summary": "noted", "leafUuid": f"{uuid_of(1)}/2"})
    other.prompt("another").reply().write()
    sessions = open_client(home).sessions
    assert sessions.get("claude", uuid_of(1)).title == "noted"
    assert {s.title for s in sessions.list("claude")} == {"noted", "another"}


def test_captured_forks_know_their_parents(copy_capture: Callable[[str], Path]) -> None:
    for name, agent in (("codex-0.166.0", "codex"), ("claude-2.1.325", "claude")):
        sessions = open_client(copy_capture(name)).sessions
        forks = [s for s in sessions.list(agent) if s.kind == "fork"]
        assert forks
        for fork in forks:
            parent: Session = sessions.get(agent, fork.forked_from or "")
            shared = next(m.content for m in parent.messages if m.role == "user")
            assert shared in [m.content for m in sessions.get(agent, fork.session_id).messages]


# Whatever the family, nothing is lost and nothing counted twice

FAMILIES = st.lists(
    st.tuples(
        st.integers(0, 5),  # whose history it begins with
        st.integers(0, 4),  # how many calls of it
        st.integers(0, 3),  # how many calls of its own
        st.booleans(),  # whether it says so
    ),
    min_size=1,
    max_size=6,
)


@drawn(150)
@given(family=FAMILIES, order=st.randoms(use_true_random=False))
def test_every_call_of_any_family_is_billed_once(
    tmp_path_factory: pytest.TempPathFactory,
    family: list[tuple[int, int, int, bool]],
    order: Random,
) -> None:
    memory = MemoryAdapter(tmp_path_factory.getbasetemp())
    made: list[tuple[Call, ...]] = []
    owners: dict[str, int] = {}
    entries: list[tuple[str, tuple[Call, ...], str | None]] = []
    for number, (parent, copied, own, recorded) in enumerate(family):
        source = parent % number if number else None
        history = made[source][:copied] if source is not None else ()
        at = START + timedelta(minutes=number)
        fresh = tuple(call(f"{number}/{n}", at=at, input=10**number) for n in range(own))
        owners.update((one.key, number) for one in fresh)
        made.append((*history, *fresh))
        named = f"s{source}" if recorded and source is not None else None
        entries.append((f"s{number}", made[-1], named))
    order.shuffle(entries)
    for name, calls, named in entries:
        kind = "session" if named is None else "fork"
        memory.put(name, *calls, kind=kind, parent=named, unnamed_copies=True)
    client = client_of(memory)
    billed = inputs(client)
    for number in range(len(family)):
        own = sum(1 for owner in owners.values() if owner == number)
        assert billed[f"s{number}"] == own * 10**number
    total = client.sessions.total_cost(agent="memory").input_tokens
    assert total == sum(10**owner for owner in owners.values())
