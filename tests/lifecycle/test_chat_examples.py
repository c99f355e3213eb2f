"""The examples of the chat platforms and the guide, run as a user runs them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from child_processes import child_env

ROOT = Path(__file__).parent.parent.parent


def run(folder: Path, *command: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=child_env(HOME=str(folder)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_the_fourth_exercise_resets_in_four_modes(tmp_path: Path) -> None:
    still = "I no longer see the earlier messages; they can still be searched."
    slack = f"This conversation was reset after 4 hours without a message. {still}"
    assert run(tmp_path, str(ROOT / "examples" / "ex4_reset.py"), "store") == [
        "daily: None, daily, daily",
        "idle: None, None, idle",
        "both: None, daily, daily",
        "none: None, None, None",
        "telegram: 1 in the conversation",
        "slack: 1 in the conversation",
        "webhook: 1 in the conversation",
        "local: 1 in the conversation",
        f"to telegram: DM with a user: This conversation was reset at 04:00. {still}",
        "telegram: 1 in the conversation",
        f"to slack: DM with a user: {slack}",
        "slack: 1 in the conversation",
        "webhook: 1 in the conversation",
        "local: 2 in the conversation",
        "8 messages are still found",
    ]


def test_the_chat_agent_serves_two_platforms_in_less_than_a_hundred_lines(tmp_path: Path) -> None:
    path = ROOT / "examples" / "chat_agent.py"
    assert len(path.read_text(encoding="utf-8").splitlines()) < 100
    still = "I no longer see the earlier messages; they can still be searched."
    milk = "telegram 120363041: @120363041 Remember the milk. My number is [phone number]."
    assert run(tmp_path, str(path), "store") == [
        milk,
        "slack C0TEAM: @U0BOB I do not know.",
        milk,
        "slack C0TEAM: This conversation was reset after 4 hours without a message. " + still,
        "slack C0TEAM: @U0BOB I do not know.",
        "api_server nightly: @cron I do not know.",
        "telegram 120363041: This conversation was reset at 04:00. " + still,
        "telegram 120363041: @120363041 I do not know.",
        "3 threads; milk: 3 hits",
    ]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["store"]


def test_the_code_of_the_guide_works(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "guides" / "chat-platforms.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 6
    assert run(tmp_path, "-c", "\n".join(blocks)) == []
