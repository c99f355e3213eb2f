"""One machine of several that share a store: `python machine.py <url> <command> [thread]`.

Each command prints one line of JSON. `hold` begins a turn with a lease of two seconds that nobody
renews in time, and waits to be killed.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import amux
from amux import LiveSession, SessionFramework, TurnInProgressError
from amux.rollout.records import new_record_id
from amux.store.turns import begin_turn

LEASE_SECONDS = 2.0
PATIENCE = 60.0


def start(sm: SessionFramework, _: str) -> Any:
    project = Path.home() / "project"
    session = sm.start_session(cwd=str(project), model="opus", approval_mode="auto")
    session.state.todos = [{"text": "from the first machine"}]
    session.state.model_override = "haiku"
    speak(session, "first")
    sm.checkpoint(session)
    return session.thread_id


def speak(session: LiveSession, text: str) -> None:
    with session.begin_turn() as turn:
        turn.message("user", text)
        turn.message("assistant", f"{text}, answered", usage={"input_tokens": 10}, cost_usd=0.25)


def resume(sm: SessionFramework, thread_id: str) -> Any:
    session = sm.resume(thread_id, cwd=str(Path.home() / "project"))
    assert session.report is not None
    speak(session, Path.home().name)
    session.state.todos.append({"text": f"from {Path.home().name}"})
    sm.end(session)
    return {
        "run": session.run_session_id,
        "failed": session.report.failed,
        "cwd": session.state.cwd,
        "model": session.state.effective_model,
        "approval": session.state.approval_mode,
        "todos": [each["text"] for each in session.state.todos],
        "texts": [each["content"] for each in session.conversation()],
        "cost": session.cost.billing.cost_usd,
    }


def hold(sm: SessionFramework, thread_id: str) -> Any:
    session = sm.resume(thread_id, cwd=str(Path.home() / "project"))
    turn = begin_turn(
        sm.store.log,
        thread_id,
        session.run_session_id,
        context=None,
        new_id=new_record_id,
        seconds=LEASE_SECONDS,
    )
    turn.message("user", "a question whose machine dies")
    tell({"turn": turn.turn_id, "run": session.run_session_id})
    threading.Event().wait()


def take_over(sm: SessionFramework, thread_id: str) -> Any:
    session = sm.resume(thread_id, cwd=str(Path.home() / "project"))
    refused: list[str] = []
    pause = threading.Event()
    for _ in range(int(PATIENCE / 0.1)):
        try:
            turn = session.begin_turn()
        except TurnInProgressError as error:
            refused.append(error.message)
            if len(refused) == 1:
                tell("refused")
            pause.wait(0.1)
            continue
        turn.message("assistant", "taken over")
        turn.end()
        break
    else:
        raise AssertionError("the turn of the dead machine was never taken over")
    events = [each.payload for each in session.items(raw=True) if each.type == "event_msg"]
    return {
        "texts": [each["content"] for each in session.conversation()],
        "interrupted": [e["turn_id"] for e in events if e["type"] == "turn_interrupted"],
    }


def tell(value: Any) -> None:
    print(json.dumps(value), flush=True)


def main() -> None:
    url, command, thread_id = sys.argv[1:]
    commands = {"start": start, "resume": resume, "hold": hold, "take_over": take_over}
    with amux.framework(url) as sm:
        tell(commands[command](sm, thread_id))


if __name__ == "__main__":
    main()
