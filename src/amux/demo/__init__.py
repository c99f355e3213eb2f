"""The demo home: sample sessions for machines without any.

`home/` is a home directory as the agents would have left it, made by `tools/make_demo.py` and never
written to. Its sessions end on the day of `DEMO_NOW`, which is "now" for whoever looks at them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

DEMO_NOW: Final = datetime(2026, 11, 14, 18, tzinfo=UTC)


def demo_home() -> Path:
    """The folder of the demo home."""
    return Path(__file__).parent / "home"
