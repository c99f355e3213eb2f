"""The outcomes that the live tests wrote to build/live, see `tests/live/outcomes.py`."""

from __future__ import annotations

import json
from typing import Any

from install_agents import ROOT

FOLDER = ROOT / "build" / "live"
CELLS = ("run", "resume", "fork", "kill", "exact")

Outcomes = dict[str, dict[str, Any]]


def outcomes_of(agent: str, version: str) -> Outcomes:
    """Return the outcome of each cell of a version; a test that did not run has none."""
    files = (FOLDER / agent / version / f"{cell}.json" for cell in CELLS)
    return {path.stem: json.loads(path.read_bytes()) for path in files if path.exists()}
