"""Changes of runs, stars, tags and settings keep the index in use and its answers correct."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders import SMALL, run_cost, uuid_of, write_claude, write_codex, write_lines, write_runs

from amux import create_client
from amux.client import Client
from amux.model.options import SessionListOptions
from amux.model.usage import Tokens

USED = Tokens(input=1000, output=2000)
EVERYTHING = SessionListOptions(limit=None, include_children=True, include_archived=True)
QUICK: Mapping[str, Any] = {"limit": None, "children": True, "archived": True}
RUN: dict[str, Any] = {"sessionId": uuid_of(3), "cost": run_cost(1.5)}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    for number in range(1, 9):
        write_claude(home, number, tokens=USED)
        write_codex(home, 100 + number, tokens=USED)
    _write_subagent(home, 1)
    settle(home)
    return home


def _write_subagent(home: Path, parent: int) -> None:
    parent_path = next(home.rglob(f"{uuid_of(parent)}.jsonl"))
    folder = parent_path.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    lines = [msgspec.json.decode(line) for line in parent_path.read_bytes().splitlines()]
    for number, line in enumerate(lines):
        line |= {"isSidechain": True, "agentId": "a1", "uuid": f"sub/{number}"}
        if line["type"] == "assistant":
            line["message"]["id"] = "msg-of-the-sub-agent"
    write_lines(folder / "agent-a1.jsonl", lines)


def settle(home: Path) -> None:
    """Date new files back: one that has just been written may change again unnoticed."""
    past = time.time() - 60
    for path in home.rglob("*"):
        if path.stat().st_mtime > past + 30:
            os.utime(path, (past, past))


def indexed(home: Path, cache: Path, **more: Any) -> Client:
    return create_client(home=home, env={"AMUX_CACHE_DIR": str(cache)}, **more)


def answers(client: Client) -> list[bytes]:
    """Everything that runs, stars, tags and settings have a part in."""
    sessions = client.sessions
    return [
        msgspec.json.encode(found)
        for found in (
            client.list_report(None, EVERYTHING),
            client.list_report(None, SessionListOptions(tags=["x"])),
            client.list_report(None, SessionListOptions(starred=True, limit=None)),
            *(sessions.total_cost(group_by=group) for group in ("agent", "day", "tag", "session")),
            sessions.total_cost(tags=["x"], group_by="model"),
            sessions.total_cost(agent="claude", since="2026-01-01", model="no-such-model"),
            client.cost_blocks(),
            client.overview(),
        )
    ]


def rows(cache: Path) -> set[tuple[str, str, int]]:
    """Every row of a session; one that is written anew has another number."""
    return _select(cache, "SELECT agent, id, rowid FROM session")


def results(cache: Path) -> set[tuple[str, bytes]]:
    return _select(cache, "SELECT agent, members FROM result")


def spendings(cache: Path) -> set[tuple[str, str, bytes]]:
    return _select(cache, "SELECT agent, kind, body FROM payload")


def _select(cache: Path, query: str) -> set[Any]:
    (path,) = cache.glob("index-*.db")
    database = sqlite3.connect(path)
    try:
        return set(database.execute(query))
    finally:
        database.close()


def ask(client: Client) -> None:
    client.list_report(None, EVERYTHING)
    client.sessions.total_cost()
    client.cost_blocks()


def test_a_new_run_rebuilds_one_cluster(home: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with indexed(home, cache) as client:
        ask(client)
    write_runs(home, {"sessionId": uuid_of(5), "cost": run_cost(2.5)})
    settle(home)
    for lines in ([], [RUN]):
        before, spent, written = results(cache), spendings(cache), rows(cache)
        write_runs(home, {"sessionId": uuid_of(5), "cost": run_cost(2.5)}, *lines)
        settle(home)
        with indexed(home, cache) as client:
            ask(client)
        assert [agent for agent, *_ in rows(cache) - written] == ["claude"]
        assert [agent for agent, _ in results(cache) - before] == ["claude"]
        assert sorted(row[:2] for row in spendings(cache) - spent) == [
            ("claude", "hours"),
            ("claude", "spending"),
        ]


@pytest.mark.parametrize("run", [{"sessionId": uuid_of(3), "tags": ["x"]}, {"cost": run_cost(1)}])
def test_a_run_that_changes_no_session_rebuilds_nothing(
    home: Path, tmp_path: Path, run: dict[str, Any]
) -> None:
    cache = tmp_path / "cache"
    with indexed(home, cache) as client:
        ask(client)
    before = rows(cache)
    write_runs(home, run)
    settle(home)
    with indexed(home, cache) as client:
        ask(client)
        assert client.fast_list(None, **QUICK) is not None
    assert rows(cache) == before


def star(home: Path, number: int, *tags: str) -> None:
    with create_client(home=home) as client:
        client.annotations.star(uuid_of(number), agent="claude")
        if tags:
            client.annotations.tag(uuid_of(number), *tags, agent="claude")


def configure(home: Path, **settings: Any) -> None:
    path = home / ".agent-mux" / "config.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.encode(settings))


def test_stars_tags_and_most_settings_rebuild_nothing(home: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with indexed(home, cache) as client:
        ask(client)
    before = rows(cache)
    star(home, 2, "x")
    configure(home, color="never", default_agent="claude", profiles={"p": {"color": "always"}})
    settle(home)
    for profile in (None, "p"):
        with indexed(home, cache, profile=profile) as client:
            ask(client)
            assert client.fast_list(None, **QUICK) is not None
    assert rows(cache) == before


def test_the_fast_list_stays_in_use(home: Path, tmp_path: Path) -> None:
    def is_fast() -> bool:
        with indexed(home, tmp_path / "cache") as client:
            return client.fast_list(None, **QUICK) is not None

    with indexed(home, tmp_path / "cache") as client:
        ask(client)
    assert is_fast()
    for change in (
        lambda: write_runs(home, RUN),
        lambda: star(home, 2, "x"),
        lambda: configure(home, timezone="Asia/Tokyo"),
    ):
        change()
        settle(home)
        assert not is_fast(), "the list must not be given before the change is known"
        with indexed(home, tmp_path / "cache") as client:
            client.list_report(None, EVERYTHING)
        assert is_fast()


def test_answers_are_equal_with_runs_stars_and_settings(home: Path, tmp_path: Path) -> None:
    subagent = {"sessionId": "a1", "cost": run_cost(0.5), "tags": ["y"]}
    lost = [{"cost": run_cost(4.0), "tags": ["x"]}, {"sessionId": "gone", "cost": run_cost(8.0)}]
    price = {"input": 7.0, "output": 9.0}
    project = tmp_path / "project"
    write_lines(
        project / ".agent-mux" / "run-index.jsonl",
        [{"v": 1, "runId": "p", "agent": "codex", "timestamp": "2026-01-01T00:00:00Z",
          "sessionId": uuid_of(104), "cost": run_cost(3.0), "tags": ["x"]}],
    )  # fmt: skip
    steps: list[tuple[Any, dict[str, Any]]] = [
        (lambda: write_runs(home, RUN), {}),
        (lambda: write_runs(home, {**RUN, "tags": ["x", "z"]}, subagent, *lost), {}),
        (lambda: star(home, 2, "x", "é"), {}),
        (lambda: star(home, 3, "z", "w"), {"project_dir": project}),
        (lambda: None, {}),
        (lambda: configure(home, timezone="Asia/Tokyo", profiles={"p": {}}), {}),
        (lambda: configure(home, prices={SMALL: price}, profiles={"p": {}}), {}),
        (lambda: None, {"profile": "p", "project_dir": project}),
        (lambda: write_runs(home, *lost), {}),
    ]
    for change, more in steps:
        change()
        settle(home)
        direct = answers(create_client(home=home, **more))
        for _ in range(2):
            with indexed(home, tmp_path / "cache", **more) as client:
                assert answers(client) == direct
        with indexed(home, tmp_path / "cache", **more) as client:
            texts = client.fast_texts(None, **QUICK)
            assert texts is not None
            shown = client.list_report(None, EVERYTHING).sessions
        encoded = [msgspec.json.format(msgspec.json.encode(each), indent=2) for each in shown]
        assert [text.encode() for text in texts.sessions] == encoded


def test_a_client_that_changes_prices_leaves_the_fast_list_alone(
    home: Path, tmp_path: Path
) -> None:
    with indexed(home, tmp_path / "cache") as client:
        before = client.list_report(None, EVERYTHING)
        prices = tmp_path / "prices.json"
        prices.write_bytes(msgspec.json.encode({SMALL: {"input": 100.0, "output": 100.0}}))
        client.models.load(prices)
        assert client.list_report(None, EVERYTHING) != before
    with indexed(home, tmp_path / "cache") as client:
        assert client.fast_list(None, **QUICK) is None
        assert client.list_report(None, EVERYTHING) == before
