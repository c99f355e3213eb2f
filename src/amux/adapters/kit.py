"""The public toolkit for adapters in other packages.

It reads JSON lines, resumes reading, builds facts from messages and calls, and converts values of
unknown types. These names are as stable as those of `amux` itself; everything else below
`amux.adapters` may change.
"""

from __future__ import annotations

from amux.adapters._base import Checkpoint, IgnoredFiles, InjectedText, Reading
from amux.adapters._kit.fold import Fold
from amux.adapters._kit.jsonl import read_records
from amux.adapters._kit.values import count, mapping, moment, parse_time, text

__all__ = [
    "Checkpoint",
    "Fold",
    "IgnoredFiles",
    "InjectedText",
    "Reading",
    "count",
    "mapping",
    "moment",
    "parse_time",
    "read_records",
    "text",
]


def __getattr__(name: str) -> object:
    if name != "Progress":
        raise AttributeError(f"module `amux.adapters.kit` has no attribute `{name}`")
    import warnings

    warnings.warn("kit.Progress is now `Checkpoint`", DeprecationWarning, stacklevel=2)
    return Checkpoint
