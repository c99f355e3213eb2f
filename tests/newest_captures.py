"""Selects the newest capture of each agent; the long runs take the others too."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from _pytest.mark import ParameterSet

from amux.testing import Capture


def newest_of_each(captures: Sequence[Capture]) -> list[ParameterSet]:
    """The newest capture of every program; `make test-full` takes the others."""
    newest = {capture.folder: capture.name for capture in captures}
    return [
        pytest.param(
            capture,
            id=capture.name,
            marks=() if newest[capture.folder] == capture.name else pytest.mark.slow,
        )
        for capture in captures
    ]
