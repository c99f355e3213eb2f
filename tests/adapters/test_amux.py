"""Runs the published conformance suite on the capture of our own session store."""

from __future__ import annotations

from pathlib import Path

from amux.adapters.amux import ADAPTER
from amux.testing import AdapterSuite, find_captures

CAPTURES = Path(__file__).parent.parent / "captures"


class TestAmux(AdapterSuite):
    adapter = ADAPTER
    captures = find_captures(CAPTURES, "amux")
    relocation = {"AMUX_STORE": "elsewhere"}
