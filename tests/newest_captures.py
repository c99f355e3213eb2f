"""Selects the newest capture of each agent; the long runs take the others too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import pytest
from _pytest.mark import ParameterSet

from amux.testing import Capture


def version_key(capture: Capture) -> tuple[list[int], int]:
    """Order captures by the numbers of their version; a plain version comes after its variants."""
    version, _, variant = capture.version.partition("-")
    return [int(number) for number in re.findall(r"\d+", version)], -len(variant)


def newest_names(captures: Iterable[Capture]) -> frozenset[str]:
    """Return the names of the newest capture of every program."""
    newest = {one.folder: one.name for one in sorted(captures, key=version_key)}
    return frozenset(newest.values())


def newest_of_each(captures: Sequence[Capture]) -> list[ParameterSet]:
    """Return all captures as parameters; only those of the newest versions are not `slow`."""
    newest = newest_names(captures)
    return [
        pytest.param(
            capture,
            id=capture.name,
            marks=() if capture.name in newest else pytest.mark.slow,
        )
        for capture in captures
    ]
