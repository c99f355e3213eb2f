"""Every built-in adapter runs the whole published suite on every capture of its agent."""

from __future__ import annotations

from pathlib import Path

from amux.adapters.claude import ADAPTER as CLAUDE
from amux.adapters.codex import ADAPTER as CODEX
from amux.testing import AdapterSuite, find_captures

CAPTURES = Path(__file__).parent.parent / "captures"


class TestClaude(AdapterSuite):
    adapter = CLAUDE
    captures = find_captures(CAPTURES, "claude")
    relocation = {"CLAUDE_CONFIG_DIR": "elsewhere"}


class TestCodex(AdapterSuite):
    adapter = CODEX
    captures = find_captures(CAPTURES, "codex")
    relocation = {"CODEX_HOME": "elsewhere"}
