"""An agent that serves two chat platforms, with resets and redaction.

`python chat_agent.py [directory]` runs it. The messages and the model are scripted; a real agent
would receive messages from a platform, send them to a model, and send the reply back.
"""

from __future__ import annotations

import re
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from typing import Any

import amux

ANN = amux.SessionSource("telegram", "120363041", user_id="120363041", user_name="Ann")
TEAM = amux.SessionSource("slack", "C0TEAM", "deploys", "channel", user_id="U0BOB", user_name="Bob")
BOT = amux.SessionSource("api_server", "nightly", user_id="cron")

SCRIPT = [
    (0, ANN, "Remember the milk. My number is +49 151 2345678."),
    (1, TEAM, "Is the release out?"),
    (1, ANN, "What should I remember?"),
    (5, TEAM, "And now?"),
    (5, BOT, "status?"),
    (30, ANN, "What should I remember?"),
]
"""Hours after the start, the source, and the message."""


def model(prompt: str, messages: list[dict[str, Any]]) -> str:
    """Stand in for a model: greet the sender by id, and repeat what it was told to remember."""
    sender = re.search(r'^Sender: .*id "([^"]+)"', prompt, re.MULTILINE)
    name = sender[1] if sender else "you"
    notes = [each["content"] for each in messages if each["content"].startswith("Remember")]
    return f"@{name} {notes[-1] if notes else 'I do not know.'}"


class ChatAgent:
    """Answers messages of any platform, each chat in a thread of its own."""

    def __init__(self, store: amux.SessionStore, clock: list[datetime]) -> None:
        self.router = amux.SourceRouter(
            store,
            reset=amux.ResetPolicySet(
                amux.ResetPolicy(mode="both", at_hour=4),
                {"slack": amux.ResetPolicy(mode="idle", idle_minutes=240)},
                zone="UTC",
            ),
            redactor=amux.Redactor(b"a secret for this example", store=store),
            redact_pii=True,
            home_channels=[amux.HomeChannel("slack", "C0HOME", "ops")],
            notify=self.notify,
            now=lambda: clock[0],
        )

    def notify(self, outcome: amux.ResetOutcome) -> None:
        """Tell the chat that its conversation was reset."""
        if outcome.source is not None and outcome.notice is not None:
            self.send(outcome.notice, outcome.source)

    def receive(self, text: str, source: amux.SessionSource) -> None:
        """Answer a message."""
        thread = self.router.route(source)
        with thread.begin_turn() as turn:
            turn.message("user", text)
            messages = self.router.conversation(thread, source)
            reply = model(self.router.context_prompt(source), messages)
            turn.message("assistant", reply)
        self.send(reply, source)

    def send(self, reply: str, source: amux.SessionSource) -> None:
        """Print a message where a real agent would call the platform."""
        message = self.router.deliver(reply, source)
        print(f"{message.platform} {message.chat_id}: {message.text}")


def main() -> None:
    """Play the script."""
    clock = [datetime(2026, 6, 1, 9, tzinfo=UTC)]
    base = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="amux-chat-")
    with amux.SessionStore(base, now=lambda: clock[0]) as store:
        agent = ChatAgent(store, clock)
        start = clock[0]
        for hours, source, text in SCRIPT:
            clock[0] = start + timedelta(hours=hours)
            agent.receive(text, source)
        print(f"{len(store.list())} threads; milk: {len(store.search('milk'))} hits")


if __name__ == "__main__":
    main()
