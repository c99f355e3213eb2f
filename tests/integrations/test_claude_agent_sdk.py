"""The Claude Agent SDK's own contracts, on every backend, under asyncio and trio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import trio
from claude_agent_sdk import fold_session_summary
from claude_agent_sdk.testing import run_session_store_conformance
from claude_agent_sdk.types import SessionKey

from amux.integrations.claude import AmuxSessionStore
from amux.store.session_store import SessionStore

MakeStore = Callable[[], AmuxSessionStore]
SUMMARISED = ("customTitle", "aiTitle", "lastPrompt", "summary", "gitBranch")
"""Fields of entries whose last value the SDK keeps in its summary."""

OPTIONAL = ("list_sessions", "list_session_summaries", "delete", "list_subkeys")


@pytest.fixture(params=["memory", "files", "postgres"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """Return a function that makes an empty store."""
    backend: str = request.param
    url: str = request.getfixturevalue("postgres_url") if backend == "postgres" else ""

    def make() -> AmuxSessionStore:
        if backend == "memory":
            return AmuxSessionStore("memory:")
        if backend == "files":
            return AmuxSessionStore(tmp_path / uuid4().hex)
        return AmuxSessionStore(f"{url}{'&' if '?' in url else '?'}schema=test_{uuid4().hex}")

    return make


def under_asyncio(work: Callable[[], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        return await work()

    return asyncio.run(main())


def under_trio(work: Callable[[], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        return await work()

    return trio.run(main)


@pytest.mark.parametrize("run", [under_asyncio, under_trio])
def test_the_contracts_of_the_sdk_hold(run: Callable[..., Any], make_store: MakeStore) -> None:
    made: list[AmuxSessionStore] = []

    def make() -> AmuxSessionStore:
        made.append(make_store())
        return made[-1]

    try:
        run(lambda: run_session_store_conformance(make))
    finally:
        for store in made:
            store.store.close()
    assert all(name in AmuxSessionStore.__dict__ for name in OPTIONAL)  # none was left out


def test_a_batch_that_arrives_twice_is_stored_once(make_store: MakeStore) -> None:
    store = make_store()
    key: Any = {"project_key": "p", "session_id": "s"}
    one: list[Any] = [
        {"uuid": "1", "type": "user", "n": 1},
        {"type": "title"},
        {"uuid": "2", "n": 2},
    ]
    two: list[Any] = [{"uuid": "2", "n": 2}, {"uuid": "3", "n": 3}]

    async def work() -> Any:
        await store.append(key, one)
        await store.append(key, one)
        await store.append(key, two)
        return await store.load(key)

    loaded = under_asyncio(work)
    assert [each.get("uuid") for each in loaded] == ["1", None, "2", None, "3"]
    store.store.close()


@pytest.mark.parametrize("uuid", [" ", "x" * 300, "a\0b", "a\ud800b"])
def test_a_line_with_an_odd_uuid_is_stored_once(make_store: MakeStore, uuid: str) -> None:
    store = make_store()
    key: SessionKey = {"project_key": "p", "session_id": "s"}

    async def main() -> Any:
        for _ in range(2):
            await store.append(key, [{"type": "user", "uuid": uuid}, {"type": "user", "uuid": "b"}])
        return await store.load(key)

    assert asyncio.run(main()) == [{"type": "user", "uuid": uuid}, {"type": "user", "uuid": "b"}]


def test_writers_at_the_same_time_lose_nothing_and_agree_on_the_summary(
    make_store: MakeStore,
) -> None:
    store = make_store()
    key: Any = {"project_key": "p", "session_id": "s"}

    async def write(field: str) -> None:
        for number in range(6):
            value = f"{field} {number}"
            entry: Any = {"uuid": value, "type": "user", "timestamp": "2026-01-01", field: value}
            await store.append(key, [entry])

    async def work() -> Any:
        await asyncio.gather(*map(write, SUMMARISED))
        return await store.load(key), await store.list_session_summaries("p")

    loaded, summaries = under_asyncio(work)
    assert len(loaded) == len({each["uuid"] for each in loaded}) == 30
    (summary,) = summaries
    assert summary["data"] == fold_session_summary(None, key, loaded)["data"]
    assert {f"{field} 5" for field in SUMMARISED} <= {*summary["data"].values()}
    store.store.close()


def test_a_session_that_is_deleted_while_others_append_is_created_again(
    make_store: MakeStore,
) -> None:
    store = make_store()
    key: Any = {"project_key": "p", "session_id": "s"}

    async def write(number: int) -> None:
        for each in range(8):
            entry: Any = {"uuid": f"{number}.{each}", "type": "user", "timestamp": "2026-01-01"}
            await store.append(key, [entry])

    async def delete() -> None:
        for _ in range(12):
            await store.delete(key)

    async def work() -> Any:
        await asyncio.gather(write(0), write(1), delete(), write(2), delete())
        last: Any = {"uuid": "last", "type": "user", "timestamp": "2026-01-01"}
        await store.append(key, [last])
        return await store.load(key)

    assert under_asyncio(work)[-1]["uuid"] == "last"
    store.store.close()


def test_another_process_sees_what_was_appended(tmp_path: Path) -> None:
    key: Any = {"project_key": "/a b/ü", "session_id": "../x"}
    first = AmuxSessionStore(tmp_path / "store")
    sent: Any = {"uuid": "u", "type": "user", "x": float("nan")}
    under_asyncio(lambda: first.append(key, [sent]))
    again = AmuxSessionStore(SessionStore(tmp_path / "store"))
    (entry,) = under_trio(lambda: again.load(key))
    assert entry["uuid"] == "u"
    assert entry["x"] != entry["x"]
    first.store.close()
    again.store.close()
