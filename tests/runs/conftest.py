"""Agents for the tests of runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from fake_agents import FakeAgents


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[FakeAgents]:
    found = FakeAgents(tmp_path)
    yield found
    left = found.living()
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == [], "an agent outlived its test"
