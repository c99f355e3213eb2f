"""Runs the published conformance suite on every capture of Qwen Code."""

from __future__ import annotations

from pathlib import Path

from amux.adapters.qwen import ADAPTER
from amux.testing import AdapterSuite, find_captures

CAPTURES = Path(__file__).parent.parent / "captures"


class TestQwen(AdapterSuite):
    adapter = ADAPTER
    captures = find_captures(CAPTURES, "qwen")
    relocation = {"QWEN_HOME": "elsewhere", "QWEN_RUNTIME_DIR": "runs"}
