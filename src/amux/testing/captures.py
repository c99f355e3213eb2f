"""Captures: homes written by real agents, with the truth about them from outside.

`<agent>/<version>/home/` is a home directory, `<agent>/<version>/expected.json` what a correct
reader finds there. A capture is never read in place: tests work on a copy and check that it stays
as it was.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """One captured home and what is true of it."""

    agent: str  # as amux names it
    folder: str  # as the captures name it; differs where several programs write one format
    version: str
    home: Path
    expected: dict[str, Any]

    @property
    def name(self) -> str:
        """For test ids."""
        return f"{self.folder}-{self.version}"

    @property
    def sessions(self) -> list[dict[str, Any]]:
        """The expected sessions."""
        found: list[dict[str, Any]] = self.expected["sessions"]
        return found

    def copy_to(self, place: Path) -> Path:
        """Copy the home, times included; returns the copy."""
        home = place / "home"
        shutil.copytree(self.home, home, symlinks=True)
        return home


def find_captures(directory: Path, *agents: str) -> list[Capture]:
    """All captures below a directory; with names, only those agents'."""
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
    """Every entry below a directory: content hash, mtime, mode. Equal = nothing was touched."""
    state: dict[str, tuple[str, int, int]] = {}
    for folder, folders, files in os.walk(directory):
        for name in (*folders, *files):
            path = Path(folder) / name
            stat = path.lstat()
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            state[str(path.relative_to(directory))] = (digest, stat.st_mtime_ns, stat.st_mode)
    return state
