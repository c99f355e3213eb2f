"""Hermes: the published suite on homes that the program has written."""

from __future__ import annotations

from pathlib import Path

from amux.adapters.hermes import ADAPTER
from amux.testing import AdapterSuite, find_captures

CAPTURES = Path(__file__).parent.parent / "captures"


class TestHermes(AdapterSuite):
    adapter = ADAPTER
    captures = find_captures(CAPTURES, "hermes")
    relocation = {"HERMES_HOME": "elsewhere"}
