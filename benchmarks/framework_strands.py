"""Measures a chat of 100 turns of Strands Agents against its own files.

The framework ships no SQLite: its `FileSessionManager` writes a file per message. A turn is four
messages and one state of the agent; a load reads the agent and lists its messages, as an agent does
that begins.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

from strands.session.file_session_manager import FileSessionManager
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from amux.integrations.strands import AmuxSessionRepository
from amux.store.session_store import SessionStore

TURNS: Final = 100
LOADS: Final = 20
_ROLES: Final[Any] = ("user", "assistant", "user", "assistant")


def measure(folder: Path, url: str | None = None) -> dict[str, dict[str, float]]:
    """Return the milliseconds per turn and per load, and the bytes, of every repository."""
    stores = [SessionStore(folder / "files"), SessionStore(folder / "synced", fsync="always")]
    repositories: dict[str, Any] = {
        "FileSessionManager": FileSessionManager("chat", storage_dir=str(folder / "own")),
        "AmuxSessionRepository, files": AmuxSessionRepository(stores[0]),
        "AmuxSessionRepository, files, synced": AmuxSessionRepository(stores[1]),
    }
    if url is not None:
        schema = f"bench_{os.urandom(4).hex()}"
        stores.append(SessionStore(f"{url}{'&' if '?' in url else '?'}schema={schema}"))
        repositories["AmuxSessionRepository, PostgreSQL"] = AmuxSessionRepository(stores[-1])
    for name, repository in repositories.items():
        if name != "FileSessionManager":  # it creates its session itself
            repository.create_session(Session("chat", SessionType.AGENT))
        repository.create_agent("chat", _agent(0))
    turns: dict[str, list[float]] = {name: [] for name in repositories}
    loads: dict[str, list[float]] = {name: [] for name in repositories}
    for number in range(TURNS):
        for name, repository in repositories.items():
            turns[name].append(_seconds(_take_turn, repository, number))
    for _ in range(LOADS):
        for name, repository in repositories.items():
            loads[name].append(_seconds(_load, repository))
    for store in stores:
        store.close()
    found = {
        name: {"turn": median(turns[name]) * 1e3, "load": median(loads[name]) * 1e3}
        for name in repositories
    }
    for name, place in zip(repositories, ("own", "files", "synced"), strict=False):
        files = (path for path in (folder / place).rglob("*") if path.is_file())
        found[name]["bytes"] = sum(path.stat().st_size for path in files)
    return found


def _take_turn(repository: Any, number: int) -> None:
    chosen = random.Random(number)
    for position, role in enumerate(_ROLES):
        text = "".join(chosen.choices("abcdef gh", k=300))
        message = SessionMessage.from_message(
            {"role": role, "content": [{"text": text}]}, number * len(_ROLES) + position
        )
        repository.create_message("chat", "default", message)
    repository.update_agent("chat", _agent(number))


def _load(repository: Any) -> None:
    assert repository.read_agent("chat", "default") is not None
    assert len(repository.list_messages("chat", "default")) == TURNS * len(_ROLES)


def _agent(number: int) -> SessionAgent:
    return SessionAgent(
        agent_id="default",
        state={"turn": number},
        conversation_manager_state={"__name__": "Sliding", "removed_message_count": 0},
    )


def _seconds(call: Callable[..., Any], *args: Any) -> float:
    start = time.perf_counter()
    call(*args)
    return time.perf_counter() - start


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(measure(Path(place)), indent=2))
