"""The number of examples of a Hypothesis test.

Each test states how many make sense; `make test` takes a quarter of them, `make test-full` the
multiple that `EXAMPLES` names. An example that failed is tried first in the next run.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

_SHARE = float(os.environ.get("EXAMPLES", "0.25"))


def drawn(examples: int = 100, **more: Any) -> settings:
    """The settings of a test; a slow machine is no fault of an example."""
    return settings(max_examples=max(10, round(examples * _SHARE)), deadline=None, **more)
