"""The asynchronous session database gives the answers of the synchronous one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from session_databases import raw, ticking_host

from amux import SessionDB, StoreError, aio

Work = Callable[[], Awaitable[Any]]


def in_asyncio(work: Work) -> Any:
    async def main() -> Any:
        return await work()

    return asyncio.run(main())


def test_every_operation_but_a_transaction_has_a_twin() -> None:
    missing: set[str] = set()
    for name, method in inspect.getmembers(SessionDB, inspect.isfunction):
        if name.startswith("_"):
            continue
        twin = getattr(aio.SessionDB, name, None)
        if twin is None:
            missing.add(name)
        else:
            assert inspect.signature(twin) == inspect.signature(method)
            assert inspect.getdoc(twin) == inspect.getdoc(method)
    assert missing == {"transaction"}


@pytest.mark.parametrize("run", [in_asyncio, trio.run], ids=["asyncio", "trio"])
def test_a_session_is_written_and_found(tmp_path: Path, run: Callable[[Work], Any]) -> None:
    async def work() -> None:
        path = tmp_path / "state.db"
        async with await aio.SessionDB.open(path, host=ticking_host(tmp_path)) as db:
            await db.create_session("s", "cli")
            for number in range(20):
                await db.append_message("s", "user", f"message {number}")
            assert await db.message_count("s") == 20
            assert len(await db.search_messages("message", limit=50)) == 20
            assert [row["id"] for row in await db.list_prune_candidates(0, title="x")] == []
            assert db.db_path == path
            assert db.sanitize_title(" a ") == "a"
        with pytest.raises(StoreError, match="is closed"):
            await db.message_count("s")

    run(work)


def test_tasks_write_at_once(tmp_path: Path) -> None:
    async def work() -> list[int]:
        async with await aio.SessionDB.open(tmp_path / "state.db") as db:
            await db.create_session("s", "cli")
            return await asyncio.gather(
                *(db.append_message("s", "user", f"message {number}") for number in range(20))
            )

    assert sorted(in_asyncio(work)) == [*range(1, 21)]


def test_a_cancelled_block_closes_its_database(tmp_path: Path) -> None:
    opened: list[aio.SessionDB] = []

    async def work() -> None:
        with trio.CancelScope() as scope:
            async with await aio.SessionDB.open(tmp_path / "state.db") as db:
                opened.append(db)
                scope.cancel()
                await trio.lowlevel.checkpoint()
        with pytest.raises(StoreError, match="is closed"):
            await opened[0].session_count()

    trio.run(work)


def test_a_database_whose_opening_is_cancelled_is_closed(tmp_path: Path) -> None:
    """Its log goes away when the last connection closes it; another one delays the opening."""
    path = tmp_path / "state.db"

    async def work() -> None:
        with raw(path) as other:
            other.execute("BEGIN EXCLUSIVE")
            task = asyncio.ensure_future(aio.SessionDB.open(path))
            await asyncio.sleep(0)
            task.cancel()
            asyncio.get_running_loop().call_soon(other.execute, "ROLLBACK")
            with pytest.raises(asyncio.CancelledError):
                await task

    in_asyncio(work)
    with raw(path) as connection:
        assert connection.execute("SELECT COUNT(*) FROM sessions").fetchone() == (0,)
    assert [each.name for each in tmp_path.iterdir()] == ["state.db"]


def test_opening_reports_the_errors_of_the_constructor(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_text("no database at all, but long enough for a header" * 20)
    with pytest.raises(StoreError, match="file is not a database"):
        asyncio.run(aio.SessionDB.open(tmp_path / "state.db"))
