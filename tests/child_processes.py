"""The environment of processes that tests start."""

from __future__ import annotations

import os
from pathlib import Path

import amux

SOURCES = str(Path(amux.__file__).parent.parent)
"""Where the amux under test lies: a child takes this one, whatever else is installed."""


def child_env(**more: str) -> dict[str, str]:
    """Programs and the amux under test; nothing else of our environment reaches the child.

    No child starts a background indexer, unless its test says so.
    """
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": SOURCES,
        "LANG": "C.UTF-8",
        "AMUX_BACKGROUND": "off",
        **more,
    }
