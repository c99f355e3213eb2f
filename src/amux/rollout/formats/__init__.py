"""The payload formats of other programs, each in a module of its own that is imported on use.

A module defines `FORMAT`, a `PayloadFormat`. A thread names its format in its meta data.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from amux.rollout.formats.base import PayloadFormat

MODULES: Final = {
    "amux": "amux",
    "claude-jsonl": "claude_jsonl",
    "openai-items": "openai_items",
    "pydantic-ai": "pydantic_ai",
    "adk-event": "adk_event",
    "strands": "strands",
}
"""The modules of this package by payload format."""


@cache
def find_format(payload_format: str) -> PayloadFormat | None:
    """Return a payload format by its name; None if this version does not know it."""
    module = MODULES.get(payload_format)
    if module is None:
        return None
    found: PayloadFormat = import_module(f"{__name__}.{module}").FORMAT
    return found
