"""Docstrings are sentences with a subject; things are not persons."""

from __future__ import annotations

import ast
import re

import pytest
from source_tree import SOURCE, definitions, dotted, modules, parse

_RIDDLES = re.compile(r"(?:The same|What|Who|Whoever|That which)\b(?! (?:is|are|does|do)\b.*\?)")
_PERSONS = re.compile(r"\b(?:who|whom|whoever|nobody|somebody)\b", re.IGNORECASE)
PACKAGES = sorted({path.relative_to(SOURCE).parts[0] for path in modules()})


def docstrings(package: str) -> list[tuple[str, str]]:
    """Every docstring of a package with the place it stands at."""
    found: list[tuple[str, str]] = []
    for path in modules():
        if path.relative_to(SOURCE).parts[0] != package:
            continue
        tree = parse(path)
        for node in (tree, *definitions(tree)):
            text = ast.get_docstring(node)
            if text is not None:
                name = getattr(node, "name", "module")
                found.append((f"{dotted(path)}:{name}", text))
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_a_docstring_begins_with_its_subject_or_a_verb(package: str) -> None:
    assert [name for name, text in docstrings(package) if _RIDDLES.match(text)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_files_and_sources_are_things(package: str) -> None:
    assert [name for name, text in docstrings(package) if _PERSONS.search(text)] == []
