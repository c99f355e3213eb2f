"""Exercise 3: each of four sources runs its own hooks; clear and resume differ on the costs.

`python ex3_lifecycle.py [directory]` runs it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import amux


class Journal(amux.LifecycleHook):
    """Notes which source it was called for."""

    applies_to = ("startup", "resume", "clear")

    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_startup(self, event: amux.HookEvent) -> amux.HookResult:
        """Greet, and return context for the prompt."""
        self.lines.append("startup")
        return amux.HookResult(context=(f"You work in {event.session.state.cwd}.",))

    def on_resume(self, event: amux.HookEvent) -> None:
        """Note that the session goes on."""
        self.lines.append(f"resume: {event.session.cost.billing.calls} calls so far")

    def on_clear(self, event: amux.HookEvent) -> None:
        """Note that the conversation is empty."""
        self.lines.append(f"clear: {len(event.session.conversation())} messages left")


def say_costs(moment: str, session: amux.LiveSession) -> None:
    """Print both counters: `context` is that of the conversation, `billing` is never reset."""
    cost = session.cost
    print(f"{moment}: context {cost.context.cost_usd:.2f}, billing {cost.billing.cost_usd:.2f}")


def main() -> None:
    """Start a session, spend 0.50 USD, resume it, and clear it."""
    base = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="amux-ex3-"))
    with amux.framework(storage=base) as sessions:
        journal = Journal()
        sessions.lifecycle.register(journal)
        session = sessions.start_session(cwd=str(base.parent), model="opus")
        session.message("user", "What is in this folder?")
        session.message("assistant", "One file.", model="opus", cost_usd=0.5)
        say_costs("after one answer", session)

        session = sessions.resume(session.thread_id)
        say_costs("after resume", session)
        sessions.clear(session)
        say_costs("after clear", session)

        sessions.compact(session, "nothing to summarise")  # the journal does not apply to this
        try:
            sessions.lifecycle.process("fork", session)
        except amux.ValidationError as error:
            print(error.message)
        print(*journal.lines, sep="\n")


if __name__ == "__main__":
    main()
