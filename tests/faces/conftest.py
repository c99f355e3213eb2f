"""Homes for the command: an empty one, and copies of captured ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_process import Cli, command_server, copied_home


@pytest.fixture(scope="session", autouse=True)
def stopped_server() -> Iterator[None]:
    yield
    if command_server.cache_info().currsize:
        command_server().stop()


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
