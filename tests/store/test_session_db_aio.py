"""The asynchronous session database gives the answers of the synchronous one."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import pytest
from session_databases import ticking_host

from amux import SessionDB, StoreError, aio


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


def test_a_session_is_written_and_found(tmp_path: Path) -> None:
    async def work() -> None:
        path = tmp_path / "state.db"
        async with await aio.SessionDB.open(path, host=ticking_host(tmp_path)) as db:
            await db.create_session("s", "cli")
            await asyncio.gather(
                *(db.append_message("s", "user", f"message {number}") for number in range(20))
            )
            assert await db.message_count("s") == 20
            assert len(await db.search_messages("message", limit=50)) == 20
            assert [row["id"] for row in await db.list_prune_candidates(0, title="x")] == []
            assert db.db_path == path
            assert db.sanitize_title(" a ") == "a"

    asyncio.run(work())


def test_opening_reports_the_errors_of_the_constructor(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_text("no database at all, but long enough for a header" * 20)
    with pytest.raises(StoreError, match="file is not a database"):
        asyncio.run(aio.SessionDB.open(tmp_path / "state.db"))
