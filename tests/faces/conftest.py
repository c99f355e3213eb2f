"""Homes for the command: an empty one, and copies of captured ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cli_process import Cli

CAPTURES = Path(__file__).parent.parent / "captures"


def copied_home(to: Path, *captures: str) -> Path:
    home = to / "home"
    home.mkdir()
    for capture in captures:
        shutil.copytree(CAPTURES / capture / "home", home, dirs_exist_ok=True)
    return home


@pytest.fixture
def empty(tmp_path: Path) -> Cli:
    return Cli(copied_home(tmp_path))


@pytest.fixture
def claude(tmp_path: Path) -> Cli:
    return Cli(copied_home(tmp_path, "claude/2.1.50"))


@pytest.fixture
def both(tmp_path: Path) -> Cli:
    """Two agents in one home."""
    return Cli(copied_home(tmp_path, "claude/2.1.50", "codex/0.42.0"))
