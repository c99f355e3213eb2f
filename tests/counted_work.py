"""Counts the work of one request: listings, readings, stat calls, opened files."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import amux
from amux.adapters import BUILTIN, load_builtin

_OWN = str(Path(amux.__file__).parent) + os.sep
_READINGS = ("read", "resume_read", "read_selected", "extract_texts")


@dataclass
class Work:
    """Work done so far. A listing is one call of `discover`; `stats` are of files below a home."""

    listings: Counter[str] = field(default_factory=Counter[str])
    readings: Counter[str] = field(default_factory=Counter[str])
    stats: int = 0
    files: set[str] = field(default_factory=set[str])

    def __str__(self) -> str:
        return (
            f"{self.listings.total()} listings, {self.readings.total()} readings,"
            f" {self.stats} stats, {len(self.files)} files"
        )


@contextmanager
def counted_work(home: Path) -> Generator[Work]:
    """Count what the body does with built-in agents; forked workers are not counted."""
    work = Work()
    with ExitStack() as patched:
        for name in BUILTIN:
            adapter = load_builtin(name)
            patched.enter_context(_counting(adapter, "discover", work.listings, name))
            for reading in _READINGS:
                if hasattr(adapter, reading):
                    patched.enter_context(_counting(adapter, reading, work.readings, name))
        patched.enter_context(patch.object(os, "stat", _counted_stat(work, home)))
        patched.enter_context(_watched_files(work.files))
        yield work


@contextmanager
def _counting(adapter: Any, member: str, counts: Counter[str], name: str) -> Generator[None]:
    original = getattr(adapter, member)

    def counted(*arguments: Any, **named: Any) -> Any:
        counts[name] += 1
        return original(*arguments, **named)

    with patch.object(adapter, member, counted, create=True):
        yield


def _counted_stat(work: Work, home: Path) -> Callable[..., os.stat_result]:
    original = os.stat

    def stat(path: Any, *arguments: Any, **named: Any) -> os.stat_result:
        work.stats += not isinstance(path, int) and os.fsdecode(path).startswith(str(home))
        return original(path, *arguments, **named)

    return stat


@contextmanager
def _watched_files(files: set[str]) -> Generator[None]:
    """Note the files of amux of which a function is called."""

    def watch(frame: FrameType, event: str, argument: object) -> None:
        del argument
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(_OWN) and frame.f_code.co_name != "<module>":
            files.add(name[len(_OWN) :])

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before)
