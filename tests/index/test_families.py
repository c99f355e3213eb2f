"""A report and a list agree on the cost of every session, whatever copies it has."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from builders import START, ClaudeSession, open_client, uuid_of
from counted_bytes import counted_bytes
from drawn import drawn
from hypothesis import example, given
from hypothesis import strategies as st
from test_work import settle

from amux.model.options import SessionListOptions
from amux.model.usage import Tokens

EVERYTHING = SessionListOptions(limit=None, include_children=True, include_archived=True)

Link = Literal["none", "forked", "foreign"]
Member = tuple[int, int, list[tuple[bool, int]], Link, bool]

MEMBERS: st.SearchStrategy[Member] = st.tuples(
    st.integers(0, 3),  # whose history it begins with
    st.integers(0, 6),  # how many lines of it
    st.lists(st.tuples(st.booleans(), st.integers(0, 4)), max_size=3),  # answered?, minute
    st.sampled_from(["none", "forked", "foreign"]),  # how copied lines say that they are
    st.booleans(),  # whether the agent tells a total of its own
)
FORK: list[Member] = [
    (0, 0, [(True, 0), (True, 1)], "none", False),
    (0, 2, [(True, 2)], "none", False),
]
ONE_KILLED: list[Member] = [
    (0, 0, [(True, 0), (True, 1)], "none", False),
    (0, 2, [(False, 2)], "none", False),
]


ONLY_A_COPY: list[Member] = [
    (0, 0, [(True, 0), (False, 3)], "none", True),
    (0, 2, [], "forked", False),
]


def write_family(home: Path, family: list[Member]) -> list[Path]:
    """Transcripts that begin with each other's lines, and go on in steps of their own."""
    made: list[list[Any]] = []
    paths: list[Path] = []
    for number, (parent, copied, steps, link, total) in enumerate(family):
        session = ClaudeSession(home, uuid_of(number + 1))
        source = parent % number if number else None
        for line in made[source][:copied] if source is not None else ():
            session.lines.append(_copied(line, session.session_id, link))
        for answered, minute in steps:
            session.at = START + timedelta(minutes=minute, seconds=number)
            session.prompt(f"step {minute}")
            if answered:
                session.reply("done", tokens=Tokens(input=10**number))
        made.append([*session.lines])
        if total:
            session.line("cost-state", totalCostUSD=0.5)
        paths.append(session.write())
    settle(home)
    return paths


def _copied(line: dict[str, Any], session_id: str, link: Link) -> dict[str, Any]:
    match link:
        case "none":
            return {**line, "sessionId": session_id}
        case "forked":
            origin = {"sessionId": line["sessionId"], "messageUuid": line["uuid"]}
            return {**line, "sessionId": session_id, "forkedFrom": origin}
        case "foreign":
            return line


def _ancestors(name: str, parents: dict[str, str | None]) -> list[str]:
    found: list[str] = []
    parent = parents.get(name)
    while parent is not None and parent not in found:
        found.append(parent)
        parent = parents.get(parent)
    return found


@drawn(120)
@given(family=st.lists(MEMBERS, min_size=2, max_size=4))
@example(FORK)
@example(ONE_KILLED)
@example(ONLY_A_COPY)
def test_a_report_and_a_list_agree_on_every_member_of_a_family(
    tmp_path_factory: pytest.TempPathFactory, family: list[Member]
) -> None:
    place = tmp_path_factory.mktemp("family")
    home = place / "home"
    write_family(home, family)
    with open_client(home, env={"AMUX_CACHE_DIR": str(place / "cache")}) as client:
        summed = client.sessions.total_cost(agent="claude", group_by="session").breakdowns
    assert summed is not None
    with open_client(home) as direct:
        listed = direct.list_report(("claude",), EVERYTHING).sessions
    parents = {one.session_id: one.parent for one in listed}
    for each in parents:
        assert each not in _ancestors(each, parents), "nobody descends from himself"
    told = {one.unified_id: one.cost for one in listed}
    found = {key: (one.input_tokens, one.total_usd) for key, one in summed.items()}
    assert found == {
        key: (0, 0.0) if cost is None else (cost.input_tokens, cost.total_usd)
        for key, cost in told.items()
    }
    shutil.rmtree(place)


def test_a_recorded_fork_is_read_once(tmp_path: Path) -> None:
    home, text = tmp_path / "home", "x" * 2_000_000
    origin = ClaudeSession(home, uuid_of(1)).prompt(text).reply("one", tokens=Tokens(input=1))
    fork = ClaudeSession(home, uuid_of(2), at=START + timedelta(hours=1))
    for line in origin.lines:
        assert isinstance(line, dict)
        fork.lines.append(_copied(line, fork.session_id, "forked"))
    sizes = [
        session.prompt("on").reply("two", tokens=Tokens(input=1)).write().stat().st_size
        for session in (origin, fork)
    ]
    settle(home)
    with open_client(home, env={"AMUX_CACHE_DIR": str(tmp_path / "cache")}) as client:
        client.sessions.list("codex")  # whatever is imported and opened is so by now
        with counted_bytes() as count:
            assert client.sessions.total_cost(agent="claude").input_tokens == 3
        assert count() < 1.5 * sum(sizes)
