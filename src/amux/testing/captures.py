"""Captures: homes written by real agents, and the expected result of reading them.

`<agent>/<version>/home/` is a home directory, and `<agent>/<version>/expected.json` describes what
a correct reader finds in it. Tests never read a capture itself: they work on a copy and check that
the copy does not change.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """One captured home and its expected content."""

    agent: str  # the name of the agent in amux
    folder: str  # the folder in captures; differs if several programs write the same format
    version: str
    home: Path
    expected: dict[str, Any]

    @property
    def name(self) -> str:
        """Return the name of the capture for test ids."""
        return f"{self.folder}-{self.version}"

    @property
    def sessions(self) -> list[dict[str, Any]]:
        """Return the expected sessions."""
        found: list[dict[str, Any]] = self.expected["sessions"]
        return found

    def copy_to(self, place: Path) -> Path:
        """Copy the home to `place / "home"` with its modification times, and return the copy."""
        home = place / "home"
        shutil.copytree(self.home, home, symlinks=True)
        return home


def find_captures(directory: Path, *agents: str) -> list[Capture]:
    """Return all captures below a directory, or only those of the given agents."""
    found: list[Capture] = []
    for path in sorted(directory.glob("*/*/expected.json")):
        expected: dict[str, Any] = msgspec.json.decode(path.read_bytes())
        agent = str(expected["agent"])
        if not agents or agent in agents:
            found.append(
                Capture(
                    agent=agent,
                    folder=path.parent.parent.name,
                    version=path.parent.name,
                    home=path.parent / "home",
                    expected=expected,
                )
            )
    return found


def fingerprint(directory: Path) -> dict[str, tuple[str, int, int]]:
    """Return the hash, mtime and mode of every entry below a directory, to detect any change."""
    state: dict[str, tuple[str, int, int]] = {}
    for folder, folders, files in os.walk(directory):
        for name in (*folders, *files):
            path = Path(folder) / name
            stat = path.lstat()
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            state[str(path.relative_to(directory))] = (digest, stat.st_mtime_ns, stat.st_mode)
    return state
