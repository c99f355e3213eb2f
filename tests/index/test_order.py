"""Lists and results have the same order with an index, without one, and however it grew.

Sub-agents have short ids, which are unique only below their parents; sessions that are equal in
every sort key, including the id, are ordered by their parents.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, get_args

import pytest
from builders import CAPTURES, uuid_of
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from newest_captures import newest_of_each

from amux import create_client
from amux.adapters import load_builtin
from amux.client import Client
from amux.model.options import (
    Direction,
    ListSort,
    SearchSort,
    SessionListOptions,
    SessionQuery,
)
from amux.model.session import SessionSummary
from amux.testing import Capture

pytestmark = pytest.mark.no_cover  # the plain tests reach the same lines


class Agent(NamedTuple):
    """A sub-agent: whose, by which name, from which minute on, with how many answers."""

    parent: int
    name: str
    minute: int
    answers: int


AGENTS = st.builds(
    Agent,
    parent=st.integers(1, 6),
    name=st.sampled_from(["a1", "a2"]),
    minute=st.integers(0, 1),
    answers=st.integers(1, 2),
)
PARENTS = range(1, 4)  # whose files are there: sub-agents of others stand for themselves


def folder_of(home: Path) -> Path:
    return home / ".claude" / "projects" / "-src-app"


def write_lines(path: Path, id: str, name: str, *, minute: int, answers: int) -> None:
    envelope: dict[str, Any] = {"sessionId": id, "cwd": "/src/app", "version": "2.1.50"}
    said = {"role": "user", "content": "Look at the kettle"}
    lines: list[dict[str, Any]] = [{"type": "user", "message": said}]
    for number in range(answers):
        answer = {
            "id": f"msg_{id}_{name}_{number}",
            "model": "claude-sonnet-4-5",
            "content": [{"type": "text", "text": "The kettle boils."}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 10, "output_tokens": 5},
        }
        lines.append({"type": "assistant", "message": answer})
    if name:
        envelope |= {"isSidechain": True, "agentId": name}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as stream:
        for number, line in enumerate(lines):
            at = f"2026-01-02T03:{minute:02}:{number:02}.000Z"
            uuid = f"{id}-{name}-{number}"
            stream.write(json.dumps({**envelope, **line, "uuid": uuid, "timestamp": at}) + "\n")


def write_agents(home: Path, agents: list[Agent]) -> None:
    for parent, name, minute, answers in agents:
        id = uuid_of(parent)
        path = folder_of(home) / id / "subagents" / f"agent-{name}.jsonl"
        write_lines(path, id, name, minute=minute, answers=answers)


def write_parents(home: Path) -> None:
    for number in PARENTS:
        id = uuid_of(number)
        write_lines(folder_of(home) / f"{id}.jsonl", id, "", minute=0, answers=1)


def settle(home: Path) -> None:
    """As if everything had been written a while ago: what is new may change again unseen."""
    past = time.time() - 60
    for path in home.rglob("*"):
        os.utime(path, (past, past))


def indexed(home: Path, cache: Path) -> Client:
    return create_client(home=home, env={"AMUX_CACHE_DIR": str(cache)})


def reading_everything(home: Path, agent: str) -> Client:
    """Somebody else's adapter is never asked to choose."""
    client = create_client(home=home)
    client.adapters.register(load_builtin(agent))
    return client


def any_list() -> st.SearchStrategy[SessionListOptions]:
    return st.builds(
        SessionListOptions,
        sort=st.sampled_from(get_args(ListSort)),
        sort_direction=st.sampled_from(get_args(Direction)),
        limit=st.sampled_from([1, 2, 3, None]),
        include_children=st.booleans(),
        include_archived=st.just(value=True),
    )


def any_search() -> st.SearchStrategy[SessionQuery]:
    return st.builds(
        SessionQuery,
        text=st.just("kettle"),
        sort=st.sampled_from(get_args(SearchSort)),
        limit=st.sampled_from([1, 2, None]),
    )


def named(sessions: tuple[SessionSummary, ...]) -> list[tuple[str, str | None]]:
    return [(session.unified_id, session.parent) for session in sessions]


def quickly(client: Client, options: SessionListOptions) -> list[tuple[str, str | None]] | None:
    """From the rows alone; None where there are problems to report."""
    found = client.fast_texts(
        None,
        sort=options.sort,
        descending=options.sort_direction == "desc",
        limit=options.limit,
        children=options.include_children,
        archived=True,
    )
    if found is None:
        return None
    told = map(json.loads, found.sessions)
    return [(session["unifiedId"], session.get("parent")) for session in told]


def check_lists(home: Path, cache: Path, agent: str, wanted: Iterable[SessionListOptions]) -> None:
    direct, everything = create_client(home=home), reading_everything(home, agent)
    with indexed(home, cache) as client:
        for _ in range(2):  # that others have nothing is noted once there is an index
            client.list_report(None, SessionListOptions())
        for options in wanted:
            order = named(everything.list_report((agent,), options).sessions)
            assert named(direct.list_report((agent,), options).sessions) == order
            assert named(client.list_report((agent,), options).sessions) == order
            assert quickly(client, options) in (order, None)
        assert client.overview().recent == direct.overview().recent


@given(
    st.lists(AGENTS, max_size=6),
    st.lists(AGENTS, max_size=6),
    st.lists(any_list(), min_size=1, max_size=4),
    any_search(),
)
@drawn(50)
def test_every_list_and_search_has_one_order(
    early: list[Agent], late: list[Agent], lists: list[SessionListOptions], search: SessionQuery
) -> None:
    with TemporaryDirectory(prefix="amux-order-") as folder:
        home, cache = Path(folder, "home"), Path(folder, "cache")
        folder_of(home).mkdir(parents=True)
        write_agents(home, early)
        with indexed(home, cache) as client:  # what comes later is entered later
            client.list_report(None, SessionListOptions())
        write_agents(home, late)
        write_parents(home)
        settle(home)
        check_lists(home, cache, "claude", lists)
        with indexed(home, cache) as client:
            found = named(client.search_report(search).sessions)
        assert found == named(create_client(home=home).search_report(search).sessions)


@pytest.mark.parametrize("capture", newest_of_each(CAPTURES))
def test_every_list_of_a_capture_has_one_order(capture: Capture, tmp_path: Path) -> None:
    home = capture.copy_to(tmp_path / "home")
    settle(home)
    whole = SessionListOptions(limit=None, include_children=True, include_archived=True)
    lists = [replace(whole, sort=sort) for sort in get_args(ListSort)]
    lists += [replace(whole, sort_direction=each, limit=2) for each in get_args(Direction)]
    check_lists(home, tmp_path / "cache", capture.agent, lists)


@pytest.mark.parametrize("direction", get_args(Direction))
@pytest.mark.parametrize("sort", get_args(ListSort))
def test_sub_agents_with_equal_ids_and_times_are_ordered_by_their_parents(
    sort: ListSort, direction: Direction, tmp_path: Path
) -> None:
    home, cache = tmp_path / "home", tmp_path / "cache"
    for parent in (3, 1, 5, 2, 4):
        write_agents(home, [Agent(parent, "a1", 0, 1)])
        options = SessionListOptions(sort=sort, sort_direction=direction, include_children=True)
        settle(home)
        with indexed(home, cache) as client:
            client.list_report(None, options)
            kept = client.list_report(None, options).sessions
            assert quickly(client, options) == named(kept)
        assert named(kept) == sorted(named(kept), key=lambda name: name[1] or "")
        assert kept == create_client(home=home).list_report(None, options).sessions
