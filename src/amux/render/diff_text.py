"""The difference of two sessions as lines for people: `- ` removed, `+ ` added, `~ ` changed.

Each operation is a line (a change is two: before and after); runs of unchanged messages are folded.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from amux.model.diff import DiffOperation, DiffStats, SessionDiff
from amux.model.message import SessionMessage
from amux.render.json_text import to_json_text
from amux.render.plain import cut, one_line

LINE_LENGTH: Final = 100
SHOWN_UNCHANGED: Final = 2
"""A run of at most this many unchanged messages is shown instead of counted."""

_ROLE_WIDTH: Final = len("assistant")
_LEAD: Final = 24  # characters of common text shown before the first difference
_SCANNED: Final = 40 * LINE_LENGTH  # enough of a text to fill a line, however much white space


def diff_lines(diff: SessionDiff) -> Iterator[str]:
    """Yield the lines: both ids, the operations in order, the counts."""
    yield f"- {one_line(diff.a.unified_id)}"
    yield f"+ {one_line(diff.b.unified_id)}"
    yield ""
    for unchanged, group in groupby(diff.operations, key=lambda op: op.type == "unchanged"):
        run = list(group)
        if unchanged and len(run) > SHOWN_UNCHANGED:
            yield f"  … {len(run):,} unchanged"
        else:
            for operation in run:
                yield from _operation_lines(operation)
    yield ""
    yield _counts(diff.stats)


def _operation_lines(operation: DiffOperation) -> Iterator[str]:
    before, after = operation.message_a, operation.message_b
    if operation.type == "modification" and before is not None and after is not None:
        yield from _modification_lines(before, after)
    elif before is not None:
        yield _line("- " if after is None else "  ", before.role, _text(before))
    elif after is not None:
        yield _line("+ ", after.role, _text(after))


def _modification_lines(before: SessionMessage, after: SessionMessage) -> Iterator[str]:
    """Both texts from shortly before the place where they part."""
    old, new = _text(before), _text(after)
    start = _first_difference(old, new) - _LEAD
    if start > 0:
        old, new = f"…{old[start:]}", f"…{new[start:]}"
    yield _line("~ ", before.role, old)
    yield _line("  ", "→".rjust(_ROLE_WIDTH), new)


def _first_difference(a: str, b: str) -> int:
    for index, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return index
    return min(len(a), len(b))


def _line(prefix: str, role: str, text: str) -> str:
    return cut(f"{prefix}{role.ljust(_ROLE_WIDTH)}  {_folded(text)}", LINE_LENGTH).rstrip()


def _folded(text: str) -> str:
    return one_line(text[:_SCANNED])


def _text(message: SessionMessage) -> str:
    """The words of a message; for one without words, what its tools were asked or answered."""
    if message.content.strip():
        return message.content.strip()
    parts = [f"{call.tool_name} {to_json_text(call.input)}" for call in message.tool_calls]
    if message.tool_result is not None:
        parts.append(f"{message.tool_result.tool_name}: {to_json_text(message.tool_result.output)}")
    return f"({', '.join(parts)})" if parts else "(empty)"


def _counts(stats: DiffStats) -> str:
    return (
        f"{stats.removals:,} removed, {stats.additions:,} added, "
        f"{stats.modifications:,} modified, {stats.unchanged:,} unchanged"
    )
