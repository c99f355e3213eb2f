"""Hooks of installed packages: the entry points of the group `amux.lifecycle`.

    [project.entry-points."amux.lifecycle"]
    greeting = "my_package:Greeting"

An entry point names a `LifecycleHook`: an instance, a class that is created without arguments, or a
list or tuple of them. Such hooks have the trust "plugin", whatever they say about themselves.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from importlib.machinery import PathFinder
from typing import Final, cast

from amux.lifecycle.hook_results import one_line
from amux.lifecycle.hooks import LifecycleHook

ENTRY_POINT_GROUP: Final = "amux.lifecycle"


def load_plugins(warn: Callable[[str], None]) -> dict[str, LifecycleHook]:
    """Import the hooks of all installed packages and return them by name.

    A package that cannot be imported is reported with `warn`, and the others are loaded.
    """
    if not _may_have_plugins():
        return {}
    from importlib.metadata import entry_points

    hooks: dict[str, LifecycleHook] = {}
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda each: each.name):
        try:
            found = _hooks_in(point.load())
        except BaseException as error:  # noqa: BLE001 - a package may even call `sys.exit`
            reason = one_line(f"{type(error).__name__}: {error}")
            warn(f"the plugin `{one_line(point.name)}` cannot be loaded: {reason}")
            continue
        for number, hook in enumerate(found, 1):
            hooks[point.name if len(found) == 1 else f"{point.name}.{number}"] = hook
    return hooks


def _hooks_in(loaded: object) -> list[LifecycleHook]:
    """Return the hooks that an entry point names; raise `TypeError` if it names something else."""
    items = list(cast("Iterable[object]", loaded)) if isinstance(loaded, list | tuple) else [loaded]
    hooks: list[LifecycleHook] = []
    for item in items:
        hook: object = item() if isinstance(item, type) else item
        if not isinstance(hook, LifecycleHook):
            raise TypeError(f"`{type(hook).__name__}` is no `LifecycleHook`")
        hooks.append(hook)
    return hooks


def _may_have_plugins() -> bool:
    """Return whether any installed package may define an entry point of our group.

    Reading the metadata files is much faster than importing `importlib.metadata`, which happens
    only if there is a plugin, or if packages lie elsewhere than in directories.
    """
    return any(_mentions_group(folder or os.curdir) for folder in sys.path) or any(
        hasattr(finder, "find_distributions")
        for finder in sys.meta_path
        if finder is not PathFinder
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
        return True  # its metadata lies deeper
    about = (name for name in names if name.lower().endswith((".dist-info", ".egg-info")))
    return any(_names_group(f"{folder}{os.sep}{name}{os.sep}entry_points.txt") for name in about)


def _names_group(path: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - hundreds of times
            return ENTRY_POINT_GROUP.encode() in file.read()
    except OSError:
        return False
