"""Runs the published conformance suite on every capture of Droid."""

from __future__ import annotations

from pathlib import Path

from amux.adapters.droid import ADAPTER
from amux.testing import AdapterSuite, find_captures

CAPTURES = Path(__file__).parent.parent / "captures"


class TestDroid(AdapterSuite):
    adapter = ADAPTER
    captures = find_captures(CAPTURES, "droid")
    relocation = {"FACTORY_HOME_OVERRIDE": "elsewhere"}
