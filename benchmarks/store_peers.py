"""Measures the store of another project: `store_peers.py openai-agents|hermes PLACE`.

Runs in an environment in which that project is installed, without amux; prints JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from store_work import (
    APPENDS,
    QUERIES,
    THREADS,
    conversation,
    time_answers,
    time_appends,
)


def measure_openai_agents(place: Path) -> dict[str, float]:
    """Measure `SQLiteSession`, which appends and reads; it has no list and no search."""
    from agents import SQLiteSession  # type: ignore[import-not-found]

    with tempfile.TemporaryDirectory(dir=place) as folder, asyncio.Runner() as runner:
        session = SQLiteSession("thread", Path(folder) / "sessions.db")

        async def append(role: str, text: str) -> None:
            await session.add_items([{"role": role, "content": text}])

        def latest() -> Any:
            return runner.run(session.get_items(limit=2))

        figures = time_appends(lambda role, text: runner.run(append(role, text)))
        return figures | {"latest 2 messages": time_answers(latest, 2)}


def measure_hermes(place: Path) -> dict[str, float]:
    """Measure `SessionDB`; the large database is filled once and kept."""
    from hermes_state import SessionDB  # type: ignore[import-not-found]

    with tempfile.TemporaryDirectory(dir=place) as folder:
        database = SessionDB(Path(folder) / "state.db")
        database.create_session("thread", "cli")
        figures = time_appends(lambda role, text: database.append_message("thread", role, text))
        if len(database.get_messages("thread")) != APPENDS:
            msg = "SessionDB has lost messages"
            raise SystemExit(msg)
        database.close()
    large = SessionDB(place / "hermes.db")
    for number in range(large.session_count(), THREADS):
        large.create_session(f"thread-{number}", "cli")
        for role, text in conversation(number):
            large.append_message(f"thread-{number}", role, text)
    for name, limit in (("list, newest 100", 100), ("list, all", THREADS)):
        figures[name] = time_answers(
            lambda limit=limit: large.list_sessions_rich(limit=limit, order_by_last_active=True),
            limit,
        )
    for name, query in QUERIES.items():
        figures[f"search, {name}"] = time_answers(lambda query=query: large.search_messages(query))
    large.close()
    return figures


def main() -> None:
    measure = {"openai-agents": measure_openai_agents, "hermes": measure_hermes}[sys.argv[1]]
    print(json.dumps(measure(Path(sys.argv[2]))))


if __name__ == "__main__":
    main()
