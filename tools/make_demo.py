"""Write src/amux/demo/home: sample sessions for machines that have none.

The stories in `demo_kit` are written in the formats of the agents; every run gives the same bytes.
With `--check` nothing is written: the exit code says whether the files are up to date. With
`--ledger` the expected totals of the sessions are printed as JSON, computed from the stories.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import timedelta
from pathlib import Path

from demo_kit import stories_handbook, stories_shop, stories_tidy
from demo_kit.chance import hexadecimal, iso
from demo_kit.claude import ClaudeWriter
from demo_kit.codex import CodexWriter, Rollout
from demo_kit.home import Home
from demo_kit.story import Story

TARGET = Path(__file__).parent.parent / "src" / "amux" / "demo" / "home"
STORIES = (*stories_shop.STORIES, *stories_tidy.STORIES, *stories_handbook.STORIES)


def build() -> Home:
    """Write every story, oldest first, so that a fork comes after its parent."""
    home, rollouts = Home(), dict[str, Rollout]()
    stories = sorted(STORIES, key=lambda story: story.start)
    for story in stories:
        if story.agent == "claude":
            ClaudeWriter(story, home).write()
        else:
            CodexWriter(story, home, rollouts).write()
    _add_thread_names(home, stories)
    _add_run_index(home, stories)
    return home


def _add_thread_names(home: Home, stories: list[Story]) -> None:
    """Write the names of Codex threads; a fork inherits the name of its parent."""
    names = {story.key: story.name for story in stories if story.agent == "codex"}
    lines: list[dict[str, str]] = []
    for story in stories:
        name = names.get(story.key) or names.get(story.fork_of or "")
        if name is not None:
            account = home.accounts[story.key]
            account.title = name
            at = iso(story.start + timedelta(minutes=1))
            lines.append({"id": account.session_id, "thread_name": name, "updated_at": at})
    home.put_lines(".codex/session_index.jsonl", lines)


def _add_run_index(home: Home, stories: list[Story]) -> None:
    lines = [
        {
            "v": 1,
            "runId": f"run-{hexadecimal(story.key, 12)}",
            "agent": story.agent,
            "model": story.model,
            "sessionId": home.accounts[story.key].session_id,
            "timestamp": iso(story.start),
            "tags": list(story.tags),
        }
        for story in stories
        if story.tags
    ]
    home.put_lines(".agent-mux/run-index.jsonl", lines)


def _existing() -> dict[str, bytes]:
    return {
        path.relative_to(TARGET).as_posix(): path.read_bytes()
        for path in TARGET.rglob("*")
        if path.is_file()
    }


def _update(files: dict[str, bytes]) -> None:
    """Write changed files and remove obsolete ones."""
    found = _existing()
    for name in found.keys() - files.keys():
        (TARGET / name).unlink()
    for name, content in files.items():
        if found.get(name) != content:
            path = TARGET / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def main() -> int:
    """Write the home, compare it, or print its ledger."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--check", action="store_true", help="compare, write nothing")
    options.add_argument("--ledger", action="store_true", help="print the expected totals as JSON")
    chosen = options.parse_args()
    home = build()
    if chosen.ledger:
        accounts = [account.to_dict() for account in home.accounts.values()]
        json.dump(accounts, sys.stdout, ensure_ascii=True, indent=1)
    elif not chosen.check:
        _update(home.files)
    elif _existing() != home.files:
        print("src/amux/demo/home is not what tools/make_demo.py writes", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
