"""Measures a chat of 100 turns of the OpenAI Agents SDK against its own sessions.

A turn reads the history, stores a prompt, and stores the reasoning, the call of a tool, its output
and the answer: the calls that the runner makes. A load reads the whole history.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final

from agents import SQLiteSession
from agents.extensions.memory import AdvancedSQLiteSession, SQLAlchemySession
from postgres_schema import Schema, new_schema
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from amux.integrations.openai_agents import AmuxSession
from amux.store.session_store import SessionStore

TURNS: Final = 100
LOADS: Final = 20
_OURS: Final = {
    "AmuxSession, files": "files",
    "AmuxSession, files, synced": "synced",
}


def measure(folder: Path, url: str | None = None) -> dict[str, dict[str, float]]:
    """Return the milliseconds per turn and per load, and the bytes, of every session."""
    with ExitStack() as stack:
        schemas = () if url is None else [stack.enter_context(new_schema(url)) for _ in range(2)]
        return asyncio.run(_measure(folder, schemas))


async def _measure(folder: Path, schemas: Sequence[Schema]) -> dict[str, dict[str, float]]:
    for name in ("sqlite", "advanced"):
        (folder / name).mkdir()
    places = {"SQLiteSession": "sqlite", "AdvancedSQLiteSession": "advanced", **_OURS}
    stores = [SessionStore(folder / "files"), SessionStore(folder / "synced", fsync="always")]
    sessions: dict[str, Any] = {
        "SQLiteSession": SQLiteSession("chat", folder / "sqlite" / "sessions.db"),
        "AdvancedSQLiteSession": AdvancedSQLiteSession(
            session_id="chat", db_path=folder / "advanced" / "sessions.db", create_tables=True
        ),
        "AmuxSession, files": AmuxSession("chat", stores[0]),
        "AmuxSession, files, synced": AmuxSession("chat", stores[1]),
    }
    engines: list[AsyncEngine] = []
    if schemas:
        theirs, ours = schemas
        engines.append(create_async_engine(theirs.sqlalchemy))
        stores.append(SessionStore(ours.ours))
        sessions["SQLAlchemySession, PostgreSQL"] = SQLAlchemySession(
            "chat", engine=engines[0], create_tables=True
        )
        sessions["AmuxSession, PostgreSQL"] = AmuxSession("chat", stores[-1])
    found = await _time(sessions)
    for name, schema in zip(("SQLAlchemySession", "AmuxSession"), schemas, strict=False):
        found[f"{name}, PostgreSQL"]["bytes"] = schema.size()
    for session in sessions.values():
        if not isinstance(session, SQLAlchemySession):
            session.close()
    for engine in engines:
        await engine.dispose()
    for store in stores:
        store.close()
    for name, place in places.items():
        files = (path for path in (folder / place).rglob("*") if path.is_file())
        found[name]["bytes"] = sum(path.stat().st_size for path in files)
    return found


async def _time(sessions: dict[str, Any]) -> dict[str, dict[str, float]]:
    turns: dict[str, list[float]] = {name: [] for name in sessions}
    loads: dict[str, list[float]] = {name: [] for name in sessions}
    for number in range(TURNS):
        prompt, *answer = _turn(number)
        for name, session in sessions.items():
            turns[name].append(await _seconds(_take_turn, session, prompt, answer))
    for _ in range(LOADS):
        for name, session in sessions.items():
            loads[name].append(await _seconds(session.get_items))
    return {
        name: {"turn": median(turns[name]) * 1e3, "load": median(loads[name]) * 1e3}
        for name in sessions
    }


async def _take_turn(session: Any, prompt: Any, answer: list[Any]) -> None:
    await session.get_items()
    await session.add_items([prompt])
    await session.add_items(answer)


def _turn(number: int) -> list[Any]:
    chosen = random.Random(number)

    def text() -> str:
        return "".join(chosen.choices("abcdef gh", k=300))

    call = f"call_{number}"
    said = [{"type": "output_text", "text": text(), "annotations": []}]
    return [
        {"role": "user", "content": text()},
        {"type": "reasoning", "id": f"rs_{number}", "summary": []},
        {"type": "function_call", "call_id": call, "name": "look_up", "arguments": '{"n": 1}'},
        {"type": "function_call_output", "call_id": call, "output": text()},
        {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": said},
    ]


async def _seconds(call: Callable[..., Awaitable[Any]], *args: Any) -> float:
    start = time.perf_counter()
    await call(*args)
    return time.perf_counter() - start


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(measure(Path(place)), indent=2))
