"""A list of files reads heads and what it can show, and shows what a list of everything shows."""

from __future__ import annotations

import os
import shutil
import time
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import codex_any
import msgspec
import pytest
from claude_generated import source_at, transcripts
from claude_homes import VERSIONS, Home
from codex_lines import OWN, PARENT, Writer, history
from drawn import drawn
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st
from list_both_ways import EVERYTHING, listed, listed_from_everything
from newest_captures import newest_of_each

from amux import create_client
from amux.adapters import load_builtin
from amux.adapters._base import ListFilter, Selective, SkippedCounts, SourceRef
from amux.adapters.claude import ADAPTER as CLAUDE
from amux.adapters.codex import ADAPTER as CODEX
from amux.model.facts import Facts
from amux.model.options import SessionListOptions
from amux.testing import find_captures

CAPTURES = find_captures(Path(__file__).parent.parent / "captures", "claude", "codex")
DIRECTIONS: tuple[Literal["asc", "desc"], ...] = ("asc", "desc")


@pytest.fixture(scope="module", params=newest_of_each(CAPTURES))
def captured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """A copy of a home, and the agent whose it is.

    The server that answered has counted its answers; where these ids are as long as those of the
    API, a list reads no more than it has to.
    """
    home: Path = request.param.copy_to(tmp_path_factory.mktemp("capture"))
    for path in home.rglob("*.jsonl"):
        path.write_bytes(path.read_bytes().replace(b"msg_fake", b"msg_01fakefakefakefake"))
    return home, request.param.agent


def test_every_list_of_a_capture_is_the_one_that_reads_everything(
    captured: tuple[Path, str],
) -> None:
    home, agent = captured
    everything = listed_from_everything(home, agent, EVERYTHING).sessions
    at_most = max(1, len(everything) // 3)
    moments = [None, *(session.created_at for session in everything[::at_most])]
    for limit, since, has_children, direction in product(
        (1, 2, 5, None), moments, (False, True), ("asc", "desc")
    ):
        options = SessionListOptions(
            limit=limit, since=since, include_children=has_children, sort_direction=direction
        )
        assert listed(home, agent, options) == listed_from_everything(home, agent, options)


def test_a_list_of_several_agents_is_the_one_that_reads_everything(tmp_path: Path) -> None:
    agents = ("claude", "codex", "hermes", "opencode")
    for agent in agents:
        newest = find_captures(Path(__file__).parent.parent / "captures", agent)[-1]
        shutil.copytree(newest.home, tmp_path, dirs_exist_ok=True, symlinks=True)
    client = create_client(home=tmp_path)
    for agent in agents:
        client.adapters.register(load_builtin(agent))
    for limit, direction, has_children in product((1, 3, 8, 20), ("asc", "desc"), (False, True)):
        options = SessionListOptions(
            limit=limit, sort_direction=direction, include_children=has_children
        )
        found = create_client(home=tmp_path).list_report(agents, options)
        everything = client.list_report(agents, options)
        assert msgspec.structs.replace(found, problems=()) == msgspec.structs.replace(
            everything, problems=()
        )


# Heads of any file


def left_unread(
    adapter: Selective, source: SourceRef, question: ListFilter
) -> SkippedCounts | None:
    """What is counted when nothing may be shown; None where the file has to be read."""
    choice = adapter.select([source], question)
    return None if choice is None or choice.first() else choice.skipped()


def check_head(adapter: Selective, source: SourceRef) -> None:
    """Either a file has to be read, or all is as its facts say: when, where, what, how many."""
    nothing = ListFilter(limit=0, children=False, archived=False)
    read = adapter.read_selected(source, chosen=(source.session_id or "",))
    facts = [item for item in read if isinstance(item, Facts)]
    listed = [one for one in facts if one.attributed and one.addressable]
    # No version gives an id to a sub-agent inside the file of its session.
    assume(not any(one.kind == "subagent" and source.role == "session" for one in listed[1:]))
    assume(source.role == "subagent" or listed[:1] == [one for one in listed if one is facts[0]])
    unread = left_unread(adapter, source, nothing)
    if unread is None:
        return
    assert sum(unread) == len(listed)
    for one in listed:
        assert unread.children == (one.kind == "subagent")
        assert one.created_at is not None
        there = msgspec.structs.replace(nothing, since=one.created_at, until=one.created_at)
        assert left_unread(adapter, source, there) == unread
        if one.cwd is not None:
            there = msgspec.structs.replace(there, cwd=one.cwd)
            assert left_unread(adapter, source, there) == unread
        later = msgspec.structs.replace(nothing, since=one.created_at + timedelta.resolution)
        assert left_unread(adapter, source, later) == SkippedCounts()
        elsewhere = msgspec.structs.replace(nothing, cwd="/nowhere")
        assert left_unread(adapter, source, elsewhere) == SkippedCounts()


@given(transcripts(), st.booleans())
@drawn(150, suppress_health_check=[HealthCheck.too_slow])
def test_the_head_of_any_transcript_agrees_with_reading_it(data: bytes, agent: bool) -> None:
    with TemporaryDirectory(prefix="amux-head-") as folder:
        source = source_at(Path(folder), agent=agent)
        source.path.write_bytes(data)
        check_head(CLAUDE, source)


@given(codex_any.logs())
@drawn(120, suppress_health_check=[HealthCheck.too_slow])
def test_the_head_of_any_rollout_agrees_with_reading_it(data: bytes) -> None:
    with TemporaryDirectory(prefix="amux-head-") as folder:
        check_head(CODEX, codex_any.write(Path(folder), data))


# Homes


def test_a_session_without_an_answer_is_listed(tmp_path: Path) -> None:
    made = many(3)
    _, lines = made.sessions[-1]
    del lines[-1]
    made.write(tmp_path)
    options = SessionListOptions(limit=1)
    found = listed(tmp_path, "claude", options)
    assert [one.session_id for one in found.sessions] == [made.sessions[-1][0]]
    assert found == listed_from_everything(tmp_path, "claude", options)


def test_a_copy_that_lost_the_name_of_its_original_shares_its_calls_in_every_list(
    tmp_path: Path,
) -> None:
    codex = tmp_path / ".codex"
    history(Writer(codex, name=f"rollout-2026-01-01T00-00-00-{PARENT}.jsonl").meta(PARENT)).read()
    migrated = Writer(codex)
    migrated.ordinal = 0
    migrated.meta(timestamp="2026-01-03T03:00:00Z", base_instructions="x" * (20 << 10))
    migrated.event("task_started", turn_id="rollout-1")
    history(migrated).prompt("New").answer("New answer").count(50, 5).read()
    options = SessionListOptions(limit=1)
    found = listed(tmp_path, "codex", options)
    assert [one.session_id for one in found.sessions] == [OWN]
    assert found == listed_from_everything(tmp_path, "codex", options)


# Effort


def many(count: int) -> Home:
    home = Home()
    for number in range(count):
        home.begin(VERSIONS[number % len(VERSIONS)], wordy=number % 2 == 0)
    return home


def damage(home: Path) -> None:
    """Behind the first answer of every session put what cannot be read without being noticed."""
    for path in home.rglob("*.jsonl"):
        with path.open("ab") as stream:
            stream.write(b"no record\n")


def test_only_what_is_shown_is_read_behind_its_head(tmp_path: Path) -> None:
    many(30).write(tmp_path)
    damage(tmp_path)
    report = create_client(home=tmp_path).list_report(("claude",), SessionListOptions(limit=4))
    read = {problem.path for problem in report.problems}
    assert {Path(path or "").stem for path in read} == {one.session_id for one in report.sessions}
    assert (len(read), report.truncated) == (4, 26)


def write_rollout(home: Path, number: int, began: datetime) -> None:
    """A rollout that says who it is, and something that cannot be read."""
    id = f"00000000-0000-4000-8001-{number:012}"
    at = began.isoformat()
    meta = {"id": id, "timestamp": at, "cwd": "/src/app", "cli_version": "0.120.0"}
    text = {"type": "user_message", "message": "Go"}
    lines = [
        {"timestamp": at, "type": "session_meta", "payload": meta},
        *({"timestamp": at, "type": "event_msg", "payload": text} for _ in range(3)),
    ]
    path = home / ".codex" / "sessions" / f"rollout-2026-01-01T00-00-00-{id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_of_several_agents_only_what_is_shown_is_read(
    direction: Literal["asc", "desc"], tmp_path: Path
) -> None:
    many(20).write(tmp_path)
    moments = [one.created_at for one in listed(tmp_path, "claude", EVERYTHING).sessions]
    for number, began in enumerate(moments):
        write_rollout(tmp_path, number, began + timedelta(seconds=1))
    damage(tmp_path)
    options = SessionListOptions(limit=6, sort_direction=direction)
    report = create_client(home=tmp_path).list_report(None, options)
    shown = {one.session_id for one in report.sessions}
    read = [Path(problem.path or "").stem for problem in report.problems]
    assert {stem[-36:] for stem in read} == shown
    assert {one.agent for one in report.sessions} == {"claude", "codex"}
    assert report.truncated == 2 * len(moments) - len(shown)


def test_a_list_from_a_day_on_reads_what_began_since(tmp_path: Path) -> None:
    many(30).write(tmp_path)
    newest = listed(tmp_path, "claude", SessionListOptions(limit=3)).sessions
    damage(tmp_path)
    options = SessionListOptions(limit=None, since=newest[-1].created_at)
    report = create_client(home=tmp_path).list_report(("claude",), options)
    assert {Path(problem.path or "").stem for problem in report.problems} == {
        one.session_id for one in newest
    }


def settle(home: Path) -> None:
    """As if everything had been written a while ago: what is new may change again unseen."""
    past = time.time() - 60
    for path in home.rglob("*"):
        os.utime(path, (past, past))


def enlarge(home: Path) -> None:
    """More bytes in the oldest session than a list would wait for."""
    (oldest, *_) = sorted(home.rglob("*.jsonl"))
    line = b'{"type":"attachment","attachment":"' + b"x" * (1 << 20) + b'"}\n'
    with oldest.open("ab") as stream:
        for _ in range(128):
            stream.write(line)


def test_the_first_list_of_much_does_not_wait_for_the_index(tmp_path: Path) -> None:
    home, cache = tmp_path / "home", tmp_path / "cache"
    many(9).write(home)
    enlarge(home)
    options = SessionListOptions(limit=4)
    with create_client(home=home, env={"AMUX_CACHE_DIR": str(cache)}) as client:
        first = client.list_report(("claude",), options)
        assert [*cache.glob("index-*.db")] == []
        client.index.update()
        assert client.list_report(("claude",), options) == first
    assert first == listed_from_everything(home, "claude", options)


def test_a_list_does_not_wait_for_much_that_the_index_lacks(tmp_path: Path) -> None:
    home, cache = tmp_path / "home", tmp_path / "cache"
    many(9).write(home)
    settle(home)
    options = SessionListOptions(limit=4)
    with create_client(home=home, env={"AMUX_CACHE_DIR": str(cache)}) as client:
        client.index.update()
        enlarge(home)
        found = client.list_report(("claude",), options)
        assert sum(one.stale for one in client.index.status().agents) == 1
    assert found == listed_from_everything(home, "claude", options)


def test_with_little_to_read_the_first_list_makes_the_index(tmp_path: Path) -> None:
    home, cache = tmp_path / "home", tmp_path / "cache"
    many(9).write(home)
    with create_client(home=home, env={"AMUX_CACHE_DIR": str(cache)}) as client:
        client.list_report(("claude",), SessionListOptions(limit=4))
    assert [*cache.glob("index-*.db")]
