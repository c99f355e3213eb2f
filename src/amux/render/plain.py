"""Session content as harmless characters, and the few facts people read, as words.

Session content is hostile: it may hold terminal escapes, text that reads backwards, halves of
surrogate pairs. `visible` leaves nothing in a text that acts instead of being seen; every format
for people passes all content through it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Final

from amux.model.cost import CostRecord
from amux.render.json_text import to_json_text

UNKNOWN: Final = "?"

_ACTING: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and line feed, DEL, C1
    "\u202a-\u202e\u2066-\u2069"  # direction overrides, embeddings, isolates
    "\u2028\u2029\ufeff\ufff9-\ufffb"  # line separators, byte order mark, annotations
    "\ud800-\udfff]"  # halves of surrogate pairs
)
_SURROGATES: Final = range(0xD800, 0xE000)
_CENT: Final = 0.01


def visible(text: str) -> str:
    """The text with every control character replaced by a symbol for it.

    Line ends become line feeds; tab and line feed stay.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return _ACTING.sub(_symbol, text)


def _symbol(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:  # noqa: PLR2004 - the control pictures mirror the first 32 characters
        return chr(0x2400 + code)
    if code == 0x7F:  # noqa: PLR2004 - DEL
        return "\u2421"
    return "\ufffd" if code in _SURROGATES else f"\u27e8U+{code:04X}\u27e9"


def one_line(text: str) -> str:
    """The text on one line: control characters visible, white space folded."""
    return " ".join(visible(text).split())


def cut(text: str, length: int) -> str:
    """At most `length` characters; a cut is marked."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def value_text(value: Any) -> str:
    """What a tool got or gave, for reading: text as it is, anything else as indented JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else to_json_text(value, indent=2)


def time_text(moment: datetime) -> str:
    """A moment in UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def cost_text(cost: CostRecord | None) -> str:
    """A cost for people: `$1.20`, `>= $1.20` for a lower bound, `?` when nothing is known."""
    if cost is None or (cost.incomplete and cost.total_usd == 0):
        return UNKNOWN
    bound = ">= " if cost.incomplete else ""
    return f"{bound}{_dollars(cost.total_usd)}"


def _dollars(amount: float) -> str:
    digits = 2 if amount == 0 or amount >= 1 else 4 if amount >= _CENT else 6
    return f"${amount:,.{digits}f}"
