"""The public toolkit for adapters in other packages.

It reads JSON lines, resumes reading, builds facts from messages and calls, and converts values of
unknown types. These names are as stable as those of `amux` itself; everything else below
`amux.adapters` may change.
"""

from __future__ import annotations

from amux.adapters._base import Progress, Reading
from amux.adapters._kit.fold import Fold
from amux.adapters._kit.jsonl import read_records
from amux.adapters._kit.values import count, mapping, moment, parse_time, text

__all__ = [
    "Fold",
    "Progress",
    "Reading",
    "count",
    "mapping",
    "moment",
    "parse_time",
    "read_records",
    "text",
]
