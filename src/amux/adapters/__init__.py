"""The table of built-in adapters, and the functions that load an adapter.

Built-in adapters are in a static table because looking up entry points is slow. Entry points are
consulted only for a name that is not in the table, and to list all agents.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from importlib import import_module
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amux.adapters._base import Adapter
    from amux.adapters._kit.known_fields import KnownFields

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
    "amux": "amux.adapters.amux",
}
"""Maps each agent name to its module, which defines the constant `ADAPTER`."""

ENTRY_POINT_GROUP = "amux.adapters"


def load_builtin(name: str) -> Adapter | None:
    """Import and return a built-in adapter; None if the name is not in the table."""
    module = BUILTIN.get(name)
    if module is None:
        return None
    adapter: Adapter = import_module(module).ADAPTER
    return adapter


def known_fields_of(name: str) -> KnownFields | None:
    """Return the known fields of a built-in agent's records; None if it has no table of them."""
    from pathlib import Path

    from amux.adapters._kit.known_fields import KnownFields

    path = Path(__file__).parent / BUILTIN.get(name, "").rpartition(".")[2] / "known_fields.txt"
    return KnownFields(path.read_text(encoding="utf-8")) if path.is_file() else None


def external_names() -> tuple[str, ...]:
    """Return the names of the adapters in installed packages, without importing them."""
    return _names_offered(tuple((folder, _changed(folder)) for folder in sys.path))


@lru_cache(maxsize=1)
def _names_offered(folders: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    """Return the names for one state of the directories that packages are installed into."""
    del folders
    if not _may_have_entry_points():
        return ()
    from importlib.metadata import entry_points

    return tuple(sorted({point.name for point in entry_points(group=ENTRY_POINT_GROUP)}))


def _changed(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 - pathlib is slow to load
    except OSError:
        return 0


def _may_have_entry_points() -> bool:
    """Return whether any installed package may define an entry point of our group.

    Scanning the metadata files is faster than importing `importlib.metadata`. Packages that are
    not stored in plain directories need that import.
    """
    others = (finder for finder in sys.meta_path if finder is not PathFinder)
    return any(_mentions_group(folder or os.curdir) for folder in sys.path) or any(
        hasattr(finder, "find_distributions") for finder in others
    )


def _mentions_group(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
    except NotADirectoryError:
        return True  # an archive
    except OSError:
        return False
    if any(name.lower().endswith(".egg") for name in (folder, *names)):
        return True
    wanted = ENTRY_POINT_GROUP.encode()
    about = (name for name in names if name.lower().endswith((".dist-info", ".egg-info")))
    return any(wanted in _read(f"{folder}{os.sep}{name}{os.sep}entry_points.txt") for name in about)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - hundreds of times
            return file.read()
    except OSError:
        return b""


def load_external(name: str) -> object | None:
    """Import and return an installed package's adapter; None if no package has that name."""
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        loaded: object = point.load()
        return loaded
    return None
