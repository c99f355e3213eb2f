"""Many threads share one client: the index stays in use, and answers equal those of one thread."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from builders import capture_named, write_claude, write_codex
from in_threads import PATIENCE_S, at_once, in_thread

from amux import aio, create_client
from amux.client import Client
from amux.model.ids import unified_id

pytestmark = pytest.mark.no_cover  # the plain tests reach the same lines

THREADS = 32
TOGETHER = ("claude-2.1.325", "codex-0.166.0", "opencode-1.18.33", "hermes-0.19.0")
Ask = Callable[[], Any]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home in which several agents have worked, with logs and with databases."""
    home = tmp_path_factory.mktemp("threads") / "home"
    for name in TOGETHER:
        shutil.copytree(capture_named(name).home, home, symlinks=True, dirs_exist_ok=True)
    return home


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"AMUX_CACHE_DIR": str(tmp_path / "cache"), "AMUX_DATA_DIR": str(tmp_path / "data")}


@pytest.fixture
def direct(shared: Path, env: dict[str, str]) -> Client:
    """Who answers without an index."""
    return create_client(home=shared, env={**env, "AMUX_INDEX": "off"})


@pytest.fixture
def client(shared: Path, env: dict[str, str]) -> Iterator[Client]:
    with create_client(home=shared, env=env) as client:
        yield client
        assert client.index.status().trouble is None, "the index was given up"


def first_id(client: Client, agent: str) -> str:
    return client.sessions.list(agent)[0].session_id


def questions(client: Client, ids: dict[str, str]) -> list[Ask]:
    """All kinds of reads; none of them shows a session of Hermes."""
    sessions, session = client.sessions, ids["claude"]
    return [
        lambda: sessions.list("claude", limit=None, include_children=True),
        lambda: sessions.list("codex", sort="cost"),
        lambda: sessions.list("opencode", tags=["nobody-has-this"]),
        lambda: sessions.search("file", agent="claude"),
        lambda: sessions.search("/f[io]le?/ OR hello", agent="codex", sort="date"),
        lambda: sessions.search("fiel", agent="opencode", exact=False),
        lambda: sessions.get("claude", session),
        lambda: sessions.get("opencode", ids["opencode"]),
        lambda: sessions.total_cost(group_by=["day", "model"]),
        lambda: sessions.total_cost(agent="codex"),
        lambda: sessions.export("codex", ids["codex"], "markdown"),
        lambda: "".join(client.stream_export("claude", session, "jsonl")),
        lambda: client.explain_cost("claude", session),
        client.cost_blocks,
        client.agents,
        lambda: client.find(session),
    ]


@pytest.mark.parametrize("max_age", [0.0, 3600.0])
def test_thirty_two_threads_get_the_answers_of_a_client_without_index(
    shared: Path, env: dict[str, str], direct: Client, max_age: float
) -> None:
    ids = {agent: first_id(direct, agent) for agent in ("claude", "codex", "opencode", "hermes")}
    serial = [ask() for ask in questions(direct, ids)]
    tagged = unified_id("hermes", ids["hermes"])
    with create_client(home=shared, env=env, max_age=max_age) as client:
        reads = questions(client, ids)
        for _ in range(2):  # while the index is made, and when it is there
            tags = [lambda n=n: client.annotations.tag(tagged, f"t{n}") for n in range(8)]
            asked = [reads[n % len(reads)] for n in range(THREADS)]
            answers = at_once([*asked, *tags])
            assert answers[:THREADS] == [serial[n % len(serial)] for n in range(THREADS)]
        assert client.annotations.tags() == {f"t{n}": 1 for n in range(8)}
        assert client.sessions.list("hermes") == direct.sessions.list("hermes")
        assert client.index.status().trouble is None


OPERATIONS: dict[str, Callable[[Client], Any]] = {
    "list": lambda client: client.sessions.list("claude"),
    "cost": lambda client: client.sessions.total_cost(),
    "search": lambda client: client.sessions.search("hello"),
    "get": lambda client: client.sessions.get("claude", first_id(client, "claude")),
    "overview": lambda client: client.overview().recent,
    "index": lambda client: client.index.check().mismatches,
    "quick": lambda client: client.fast_list(["claude"]) is None,
}


@pytest.mark.parametrize("first", OPERATIONS)
def test_operations_of_one_client_may_run_in_different_threads(client: Client, first: str) -> None:
    in_thread(lambda: OPERATIONS[first](client))
    for ask in OPERATIONS.values():
        ask(client)  # makes what the quick way needs
        here = ask(client)
        assert in_thread(lambda ask=ask: ask(client)) == here
    in_thread(client.close)


def test_many_threads_may_be_the_first_to_use_a_client(client: Client) -> None:
    made = at_once([lambda: (client.models, client.sessions.list("claude"))] * THREADS)
    assert {id(models) for models, _ in made} == {id(client.models)}
    assert all(listed == made[0][1] for _, listed in made)


def test_a_client_closed_by_another_thread_may_be_used_again(client: Client) -> None:
    before = client.sessions.search("hello")
    for _ in range(3):
        in_thread(client.close)
        assert client.sessions.search("hello") == before


def test_a_reopened_client_uses_what_others_have_indexed(home: Path, env: dict[str, str]) -> None:
    write_claude(home, 1)
    with create_client(home=home, env=env) as client:
        assert len(client.sessions.search("hello")) == 1
        client.close()
        write_codex(home, 2)
        with create_client(home=home, env=env) as other:
            assert len(other.sessions.search("hello")) == 2
        assert len(client.sessions.search("hello")) == 2


def test_closing_waits_for_a_search_that_is_under_way(
    shared: Path, env: dict[str, str], direct: Client
) -> None:
    client = create_client(home=shared, env=env)
    closer = Thread(target=client.close, daemon=True)
    waited: list[bool] = []

    def close_elsewhere(done: int, total: int, what: str) -> None:
        if not waited:
            closer.start()
            closer.join(0.1)
            waited.append(closer.is_alive())

    client.watch(close_elsewhere)
    assert client.sessions.search("file") == direct.sessions.search("file")
    closer.join(PATIENCE_S)
    assert waited == [True]
    assert not closer.is_alive()
    assert client.index.status().trouble is None
    client.close()


def test_a_partly_consumed_export_does_not_block_other_threads(client: Client) -> None:
    session = first_id(client, "claude")
    whole = client.sessions.export("claude", session, "jsonl")
    pieces = client.stream_export("claude", session, "jsonl")
    first = next(pieces)
    in_thread(lambda: client.sessions.search("hello"))
    in_thread(client.close)
    assert first + "".join(pieces) == whole


def test_following_a_session_does_not_block_other_threads(client: Client) -> None:
    ended = Event()
    session = first_id(client, "claude")
    with client.follow("claude", session, from_start=True, stop=ended) as changes:
        next(changes)
        in_thread(lambda: client.sessions.search("hello"))
        in_thread(client.close)
        ended.set()


def test_concurrent_awaits_get_the_answers_of_a_client_without_index(
    shared: Path, env: dict[str, str], direct: Client
) -> None:
    twin = aio.create_client(home=shared, env=env)
    session = first_id(direct, "claude")
    wanted = [
        direct.sessions.search("file"),
        direct.sessions.list("claude"),
        direct.sessions.total_cost(),
        direct.sessions.get("claude", session),
    ]

    async def ask() -> list[Any]:
        found: list[Any] = []
        for _ in range(2):
            found += await asyncio.gather(
                *(
                    question
                    for _ in range(8)
                    for question in (
                        twin.sessions.search("file"),
                        twin.sessions.list("claude"),
                        twin.sessions.total_cost(),
                        twin.sessions.get("claude", session),
                    )
                )
            )
            await twin.close()
        return found

    assert asyncio.run(ask()) == wanted * 16
    with create_client(home=shared, env=env) as client:
        assert client.index.status().trouble is None
