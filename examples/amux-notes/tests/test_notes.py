"""Runs the published suite on a capture of `notes`."""

from __future__ import annotations

from pathlib import Path

from amux_notes import ADAPTER

from amux.testing import AdapterSuite, find_captures


class TestNotes(AdapterSuite):
    """Runs every rule on every capture."""

    adapter = ADAPTER
    captures = find_captures(Path(__file__).parent / "captures", "notes")
    relocation = {"NOTES_HOME": "elsewhere"}
