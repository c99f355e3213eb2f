"""Real Git repositories for tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_PERSON = {"NAME": "A", "EMAIL": "a@example.org", "DATE": "2026-03-01T12:00:00Z"}
_ENV = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{
        f"GIT_{who}_{what}": text
        for who in ("AUTHOR", "COMMITTER")
        for what, text in _PERSON.items()
    },
}


def git(folder: Path, *words: str) -> str:
    """Run a command of Git in a folder and return its output."""
    done = subprocess.run(
        ["git", *words], cwd=folder, env=_ENV, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def make_repository(folder: Path, *, branch: str = "main") -> str:
    """Make a repository with one commit; return the commit."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", f"--initial-branch={branch}")
    return commit(folder, "first")


def commit(folder: Path, text: str) -> str:
    """Add an empty commit and return its id."""
    git(folder, "commit", "--quiet", "--allow-empty", "--message", text)
    return git(folder, "rev-parse", "HEAD")
