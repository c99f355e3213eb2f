"""Runs the published conformance suite on every capture of Copilot CLI."""

from __future__ import annotations

from pathlib import Path

from amux.adapters.copilot import ADAPTER
from amux.testing import AdapterSuite, find_captures

CAPTURES = Path(__file__).parent.parent / "captures"


class TestCopilot(AdapterSuite):
    adapter = ADAPTER
    captures = find_captures(CAPTURES, "copilot")
    relocation = {
        "COPILOT_HOME": "elsewhere",
        "XDG_STATE_HOME": "state",
        "XDG_CONFIG_HOME": "config",
    }
