"""Agents for the tests of runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_agents import FakeAgents


@pytest.fixture
def agents(tmp_path: Path) -> FakeAgents:
    return FakeAgents(tmp_path)
