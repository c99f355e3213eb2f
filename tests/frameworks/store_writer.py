"""A process that writes through one framework and prints the number of each write that returned.

    python store_writer.py FRAMEWORK ADDRESS NAME FIRST COUNT

It writes to a session that all writers of its framework share, or until it is killed if COUNT is 0.
Its clock steps back with every look at it.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from amux.store.session_store import SessionStore

SHARED = "shared"
Write = Callable[[int], None]


def clock_that_steps_back() -> Callable[[], datetime]:
    steps = count()
    start = datetime.now(UTC)
    return lambda: start - timedelta(seconds=next(steps))


def through_claude(store: SessionStore, name: str) -> Write:
    from amux.integrations.claude import AmuxSessionStore

    sessions = AmuxSessionStore(store)
    key: Any = {"project_key": "project", "session_id": SHARED}

    def write(number: int) -> None:
        entry: Any = {"type": "user", "uuid": f"{name}.{number}", "timestamp": "2026-01-01"}
        asyncio.run(sessions.append(key, [entry]))

    return write


def through_openai_agents(store: SessionStore, name: str) -> Write:
    from amux.integrations.openai_agents import AmuxSession

    session = AmuxSession(SHARED, store)

    def write(number: int) -> None:
        asyncio.run(session.add_items([{"role": "user", "content": f"{name}.{number}"}]))

    return write


def through_strands(store: SessionStore, name: str) -> Write:
    """The messages of an agent have numbers, so each writer has an agent of its own."""
    from strands.types.exceptions import SessionException
    from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

    from amux.integrations.strands import AmuxSessionRepository

    repository = AmuxSessionRepository(store)
    with contextlib.suppress(SessionException):  # another writer was faster
        repository.create_session(Session(session_id=SHARED, session_type=SessionType.AGENT))
    if repository.read_agent(SHARED, name) is None:
        agent = SessionAgent(agent_id=name, state={}, conversation_manager_state={})
        repository.create_agent(SHARED, agent)

    def write(number: int) -> None:
        message: Any = {"role": "user", "content": [{"text": f"{name}.{number}"}]}
        known = repository.read_message(SHARED, name, number)
        if known is None:  # it may have been stored when the writer was killed
            repository.create_message(SHARED, name, SessionMessage(message, number))

    return write


THROUGH = {
    "claude": through_claude,
    "openai_agents": through_openai_agents,
    "strands": through_strands,
}


def main() -> None:
    framework, address, name, first, number = sys.argv[1:]
    store = SessionStore(address, now=clock_that_steps_back())
    write = THROUGH[framework](store, name)
    begin = int(first)
    for each in count(begin) if number == "0" else range(begin, begin + int(number)):
        write(each)
        print(each, flush=True)


if __name__ == "__main__":
    main()
