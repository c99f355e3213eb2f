"""Runs the published conformance suite on every capture of Gemini CLI."""

from __future__ import annotations

from pathlib import Path

from amux.adapters.gemini import ADAPTER
from amux.testing import AdapterSuite, find_captures

CAPTURES = Path(__file__).parent.parent / "captures"


class TestGemini(AdapterSuite):
    adapter = ADAPTER
    captures = find_captures(CAPTURES, "gemini")
    relocation = {"GEMINI_CLI_HOME": "elsewhere"}
