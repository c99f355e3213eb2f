"""Measures a chat of 100 turns of the Claude Agent SDK, which ships a store in memory only.

A turn is four lines in one batch, as the SDK sends them. The bare file shows what the agent itself
writes.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

from claude_agent_sdk import InMemorySessionStore

from amux.integrations.claude import AmuxSessionStore
from amux.store.session_store import SessionStore

TURNS: Final = 100
LOADS: Final = 20
_KEY: Final[Any] = {"project_key": "project", "session_id": "chat"}


def measure(folder: Path, url: str | None = None) -> dict[str, dict[str, float]]:
    """Return the milliseconds per turn and per load, and the bytes, of every store."""
    stores: dict[str, Any] = {
        "InMemorySessionStore": InMemorySessionStore(),
        "AmuxSessionStore, files": AmuxSessionStore(folder / "files"),
        "AmuxSessionStore, files, synced": AmuxSessionStore(
            SessionStore(folder / "synced", fsync="always")
        ),
    }
    if url is not None:
        schema = f"bench_{os.urandom(4).hex()}"
        address = f"{url}{'&' if '?' in url else '?'}schema={schema}"
        stores["AmuxSessionStore, PostgreSQL"] = AmuxSessionStore(address)
    turns: dict[str, list[float]] = {name: [] for name in stores}
    loads: dict[str, list[float]] = {name: [] for name in stores}
    for number in range(TURNS):
        for name, store in stores.items():
            turns[name].append(_seconds(store.append, _KEY, _turn(number)))
    for _ in range(LOADS):
        for name, store in stores.items():
            loads[name].append(_seconds(store.load, _KEY))
    found = {
        name: {"turn": median(turns[name]) * 1e3, "load": median(loads[name]) * 1e3}
        for name in stores
    }
    for name, place in (("files", "files"), ("files, synced", "synced")):
        paths = (folder / place).rglob("*")
        size = sum(path.stat().st_size for path in paths if path.is_file())
        found[f"AmuxSessionStore, {name}"]["bytes"] = size
    for store in stores.values():
        if isinstance(store, AmuxSessionStore):
            store.store.close()
    return found


def _turn(number: int) -> list[Any]:
    chosen = random.Random(number)
    return [
        {
            "type": kind,
            "uuid": f"{number}-{position}",
            "timestamp": "2026-01-01T00:00:00Z",
            "message": {"role": kind, "content": "".join(chosen.choices("abcdef gh", k=300))},
        }
        for position, kind in enumerate(("user", "assistant", "user", "assistant"))
    ]


def _seconds(call: Callable[..., Any], *args: Any) -> float:
    async def timed() -> float:
        start = time.perf_counter()
        await call(*args)
        return time.perf_counter() - start

    return asyncio.run(timed())


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(measure(Path(place)), indent=2))
