"""Measures a chat of 100 turns of the Agent Development Kit against its own services.

A turn gets the session and appends four events, one of which changes a state, as a runner does. The
kit's services commit every event to the disk; so do our synced files. `DatabaseSessionService` is
measured on SQLite and on PostgreSQL.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types
from postgres_schema import new_schema

from amux.integrations.adk import AmuxSessionService
from amux.store.session_store import SessionStore

TURNS: Final = 100
LOADS: Final = 20
_KEY: Final[dict[str, Any]] = {"app_name": "app", "user_id": "ada", "session_id": "chat"}


def measure(folder: Path, url: str | None = None) -> dict[str, dict[str, float]]:
    """Return the milliseconds per turn and per load, and the bytes, of every service."""
    for place in ("sqlite", "database"):
        (folder / place).mkdir()
    theirs: dict[str, BaseSessionService] = {
        "SqliteSessionService": SqliteSessionService(str(folder / "sqlite" / "own.db")),
        "DatabaseSessionService, SQLite": DatabaseSessionService(
            f"sqlite+aiosqlite:///{folder}/database/own.db"
        ),
    }
    opened = {
        "AmuxSessionService, files": SessionStore(folder / "files"),
        "AmuxSessionService, files, synced": SessionStore(folder / "synced", fsync="always"),
    }
    sizes: dict[str, Callable[[], int]] = {
        name: partial(_bytes_below, folder / place)
        for name, place in zip(
            (*theirs, *opened), ("sqlite", "database", "files", "synced"), strict=True
        )
    }
    with ExitStack() as stack:
        if url is not None:
            own, ours = (stack.enter_context(new_schema(url)) for _ in range(2))
            theirs["DatabaseSessionService, PostgreSQL"] = DatabaseSessionService(own.sqlalchemy)
            opened["AmuxSessionService, PostgreSQL"] = SessionStore(ours.ours)
            sizes["DatabaseSessionService, PostgreSQL"] = own.size
            sizes["AmuxSessionService, PostgreSQL"] = ours.size
        services = theirs | {name: AmuxSessionService(store) for name, store in opened.items()}
        found = asyncio.run(_measure(services))
        for name, size in sizes.items():
            found[name]["bytes"] = size()
        for store in opened.values():
            store.close()
    return found


def _bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


async def _measure(services: dict[str, BaseSessionService]) -> dict[str, dict[str, float]]:
    turns: dict[str, list[float]] = {name: [] for name in services}
    loads: dict[str, list[float]] = {name: [] for name in services}
    for service in services.values():
        await service.create_session(**_KEY, state={"user:name": "Ada"})
    for number in range(TURNS):
        for name, service in services.items():
            turns[name].append(await _seconds(_take_turn, service, number))
    for _ in range(LOADS):
        for name, service in services.items():
            loads[name].append(await _seconds(_load, service))
    for service in services.values():
        if isinstance(service, DatabaseSessionService):
            await service.close()
    return {
        name: {"turn": median(turns[name]) * 1e3, "load": median(loads[name]) * 1e3}
        for name in services
    }


async def _take_turn(service: BaseSessionService, number: int) -> None:
    session = await service.get_session(**_KEY)
    assert session is not None
    chosen = random.Random(number)
    for position, author in enumerate(("user", "helper", "helper", "helper")):
        text = "".join(chosen.choices("abcdef gh", k=300))
        delta = {"turn": number, "user:turns": number} if position == 3 else {}
        event = Event(
            author=author,
            invocation_id=f"{number}",
            content=types.Content(role="model", parts=[types.Part(text=text)]),
            actions=EventActions(state_delta=delta),
        )
        await service.append_event(session, event)


async def _load(service: BaseSessionService) -> None:
    found = await service.get_session(**_KEY)
    assert found is not None
    assert len(found.events) == TURNS * 4


async def _seconds(call: Callable[..., Awaitable[Any]], *args: Any) -> float:
    start = time.perf_counter()
    await call(*args)
    return time.perf_counter() - start


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(measure(Path(place)), indent=2))
