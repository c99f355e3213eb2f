"""Folders stay small, class names are unique, and the map names every module."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from pkgutil import resolve_name

import pytest
from source_tree import ROOT, SOURCE, dotted, modules, parse

from amux.adapters import BUILTIN

MOST_MODULES = 20
MOST_FILES = 540
MOST_LINES = 96_000
MAP = ROOT / "docs" / "internals" / "map.md"
WAYS = MAP.read_text(encoding="utf-8").partition("## Modules")[0]
LARGE_FOLDERS = {"model", "faces/cli/commands", *(f"adapters/{name}" for name in BUILTIN)}


def test_a_folder_has_at_most_twenty_modules() -> None:
    folders = Counter(
        path.parent.relative_to(SOURCE).as_posix()
        for path in modules()
        if path.name != "__init__.py"
    )
    assert {
        name: count
        for name, count in folders.items()
        if count > MOST_MODULES and name not in LARGE_FOLDERS
    } == {}


def test_a_class_name_is_unique_outside_the_adapters() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in modules():
        if path.is_relative_to(SOURCE / "adapters") or path.name == "aio.py":
            continue  # an agent has words of its own; the asynchronous twin repeats the client's
        for node in parse(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(dotted(path))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_every_module_has_its_line_in_the_map() -> None:
    text = MAP.read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([\w.]+)` \|", text, re.MULTILINE))
    found = {dotted(path) for path in modules()} - {""}
    assert named == found


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([a-z_]+(?:\.\w+)+)`", WAYS))))
def test_the_ways_of_the_map_name_what_exists(name: str) -> None:
    assert resolve_name(f"amux.{name}") is not None


def test_the_source_does_not_grow_past_its_bounds() -> None:
    paths = modules()
    lines = sum(path.read_bytes().count(b"\n") for path in paths)
    assert len(paths) < MOST_FILES
    assert lines <= MOST_LINES
