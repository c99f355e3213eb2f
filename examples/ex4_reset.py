"""Exercise 4: a reset policy with four modes, and a notice to the people it concerns.

`python ex4_reset.py [directory]` runs it. Times are local times of Berlin on an imaginary clock.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from amux import (
    ResetMode,
    ResetOutcome,
    ResetPolicy,
    ResetPolicySet,
    SessionSource,
    SessionStore,
    SourceRouter,
)

BERLIN = ZoneInfo("Europe/Berlin")
EVENING = datetime(2026, 3, 28, 23, 0, tzinfo=BERLIN).astimezone(UTC)
"""A message at 23:00. In the night that follows the clocks go forward by an hour."""


def show_modes() -> None:
    """Print what each mode says of three silences after a message at 23:00."""
    for mode in ResetMode:
        policy = ResetPolicy(mode=mode, at_hour=4, idle_minutes=1440)
        reasons = [
            policy.due(EVENING, EVENING + timedelta(hours=hours), zone=BERLIN)
            for hours in (3, 4, 24)  # 03:00, 04:00 and the next evening
        ]
        print(f"{mode}: {', '.join(str(reason) for reason in reasons)}")


def show_resets(base: str) -> None:
    """Route messages of three platforms over two days, and print what is left of each chat."""
    clock = EVENING
    policies = ResetPolicySet(
        ResetPolicy(mode="both", at_hour=4),
        {"slack": ResetPolicy(mode="idle", idle_minutes=240)},
        zone=BERLIN,
    )

    def notify(outcome: ResetOutcome) -> None:
        assert outcome.source is not None
        print(f"to {outcome.source.label}: {outcome.notice}")

    with SessionStore(base, now=lambda: clock) as store:
        router = SourceRouter(store, reset=policies, notify=notify, now=lambda: clock)
        chats = [SessionSource(name, "1") for name in ("telegram", "slack", "webhook", "local")]
        for hours in (0, 4):
            clock = EVENING + timedelta(hours=hours)
            for source in chats:
                thread = router.route(source)
                thread.message("user", f"zebra at {clock.astimezone(BERLIN):%H:%M}")
                print(f"{source.platform}: {len(thread.conversation())} in the conversation")
        print(f"{len(store.search('zebra'))} messages are still found")


def main() -> None:
    """Run the exercise."""
    show_modes()
    show_resets(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="amux-ex4-"))


if __name__ == "__main__":
    main()
