"""The asynchronous twin has the documented interface and works like the other one."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from managed_home import ManagedHome

from amux import aio
from amux.client import Client
from amux.managed.sessions import ManagedSessions
from amux.managed.state import SessionInfo


def test_the_documented_interface_is_awaitable() -> None:
    for name in (
        *("create_session", "resume_session", "list_sessions", "delete_session"),
        "save_session_state",
    ):
        assert inspect.iscoroutinefunction(getattr(aio.ManagedSessions, name))


def test_every_operation_has_a_twin() -> None:
    for name, method in inspect.getmembers(ManagedSessions, inspect.isfunction):
        if not name.startswith("_"):
            twin = getattr(aio.ManagedSessions, name)
            assert inspect.signature(twin) == inspect.signature(method)


def test_sessions_of_several_agents_run_at_the_same_time(managed_home: ManagedHome) -> None:
    managed_home.configure(opencode={"server_mode": False})
    inner: Client = managed_home.client()

    async def work() -> list[SessionInfo]:
        managed = aio.Client(inner).managed
        options: dict[str, Any] = {"cwd": str(managed_home.project)}
        agents = ("claude", "droid", "opencode")
        made = await asyncio.gather(
            *(managed.create_session(agent, "hello", **options) for agent in agents)
        )
        again = [managed.resume_session(info.id, "more", strategy="always") for info in made]
        return await asyncio.gather(*again)

    infos = asyncio.run(work())
    assert [info.text for info in infos] == ["Answer to: more"] * 3
    assert [info.resume_count for info in infos] == [1, 1, 1]
