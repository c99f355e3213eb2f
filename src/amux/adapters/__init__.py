"""The table of built-in adapters, and how one is loaded.

Built-ins are a static table because asking for entry points is slow; those are looked up only for a
name the table does not have, and when somebody wants to see everything.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amux.adapters._base import Adapter

BUILTIN: dict[str, str] = {
    "claude": "amux.adapters.claude",
    "codex": "amux.adapters.codex",
    "gemini": "amux.adapters.gemini",
    "copilot": "amux.adapters.copilot",
    "cursor": "amux.adapters.cursor",
    "opencode": "amux.adapters.opencode",
    "pi": "amux.adapters.pi",
    "omp": "amux.adapters.omp",
    "openclaw": "amux.adapters.openclaw",
    "hermes": "amux.adapters.hermes",
    "droid": "amux.adapters.droid",
    "qwen": "amux.adapters.qwen",
    "agent": "amux.adapters.agent",
}
"""Agent name to module; every module has a constant `ADAPTER`."""

ENTRY_POINT_GROUP = "amux.adapters"


def load_builtin(name: str) -> Adapter | None:
    """Import one built-in adapter; None when the name is not in the table."""
    module = BUILTIN.get(name)
    if module is None:
        return None
    adapter: Adapter = import_module(module).ADAPTER
    return adapter


def external_names() -> tuple[str, ...]:
    """Names of adapters that installed packages offer, without importing them."""
    return _names_offered(tuple((folder, _changed(folder)) for folder in sys.path))


@lru_cache(maxsize=1)
def _names_offered(folders: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    """The same, asked once for a state of the folders that packages are installed into."""
    from importlib.metadata import entry_points

    del folders
    return tuple(sorted({point.name for point in entry_points(group=ENTRY_POINT_GROUP)}))


def _changed(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 - pathlib is slow to load
    except OSError:
        return 0


def load_external(name: str) -> object | None:
    """Import an installed package's adapter; None when no package offers that name."""
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        loaded: object = point.load()
        return loaded
    return None
