"""An agent with durable, searchable, resumable sessions: `python minimal_agent.py TEXT`.

Each start continues the latest session; `/new` begins another one, `/find WORD` searches them all.
"""

from __future__ import annotations

import os
import sys

import amux


def model(messages: list[dict[str, object]]) -> str:
    """Return an answer; a real agent calls its model here."""
    return f"You said {messages[-1]['content']!r}, message {len(messages)}."


def main(text: str) -> None:
    """Answer one message."""
    with amux.framework("sessions") as sm:
        if text.startswith("/find "):
            for hit in sm.store.search(text.removeprefix("/find ")):
                print(f"{hit.role}: {hit.snippet}")
            return
        latest = sm.store.list(limit=1)
        if latest and text != "/new":
            session = sm.resume(latest[0].thread_id)
        else:
            session = sm.start_session(cwd=os.getcwd(), model="stand-in")  # noqa: PTH109
        with session.begin_turn() as turn:
            turn.message("user", text)
            turn.message("assistant", model(session.conversation()))
        sm.end(session)
        print(session.conversation()[-1]["content"])


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
