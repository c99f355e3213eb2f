"""`amux sessions diff`, `amux diff`: compare two sessions message by message."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from amux.faces.cli.context import Context
from amux.faces.cli.filters import add_examples
from amux.faces.cli.output import Column
from amux.faces.cli.parser import CommandParser

if TYPE_CHECKING:
    from amux.model.diff import DiffOperation, SessionDiff
    from amux.model.message import SessionMessage

SIGNS = {"addition": "+", "removal": "-", "modification": "~", "unchanged": "="}
TEXT_LENGTH = 200

_COLUMNS = (
    Column(""),
    Column("A", is_number=True),
    Column("B", is_number=True),
    Column("Role"),
    Column("Text", grows=True),
)


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    help_text = "`AGENT:ID` or the beginning of an id"
    parser.add_argument("a", metavar="A", help=help_text)
    parser.add_argument("b", metavar="B", help=help_text)
    add_examples(parser, "amux diff claude:29c5cee3 codex:01a1e0d0")


def run(context: Context) -> None:
    """Compare two sessions."""
    args, output = context.args, context.output
    sides = [context.find([words]) for words in (args.a, args.b)]
    with context.busy("comparing"):
        diff = context.client.sessions.diff(
            *((side.agent, side.native_session_id) for side in sides)
        )
    if context.is_json:
        output.json(diff)
        return
    if output.is_terminal:
        output.table(_COLUMNS, _folded(diff))
        output.text(_totals(diff))
    else:
        output.rows(row for operation in diff.operations for row in _rows(operation))
        output.note(_totals(diff))


def _totals(diff: SessionDiff) -> str:
    stats = diff.stats
    return (
        f"{stats.removals} removed, {stats.additions} added, "
        f"{stats.modifications} modified, {stats.unchanged} unchanged"
    )


def _folded(diff: SessionDiff) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a table; consecutive unchanged messages become one row."""
    for is_equal, operations in groupby(diff.operations, key=lambda each: each.type == "unchanged"):
        run_of = list(operations)
        if is_equal:
            yield ("=", "", "", "", f"({len(run_of)} unchanged)")
        else:
            for operation in run_of:
                yield from _rows(operation)


def _rows(operation: DiffOperation) -> Iterator[tuple[str, ...]]:
    """Yield one row, or two for a modification: before and after."""
    sign, is_equal = SIGNS[operation.type], operation.type == "unchanged"
    if operation.message_a is not None:
        index_b = operation.index_b if is_equal else None
        yield _row(sign, operation.message_a, index_a=operation.index_a, index_b=index_b)
    if operation.message_b is not None and not is_equal:
        yield _row(sign, operation.message_b, index_a=None, index_b=operation.index_b)


def _row(
    sign: str, message: SessionMessage, *, index_a: int | None, index_b: int | None
) -> tuple[str, ...]:
    return (sign, _index(index_a), _index(index_b), message.role, _text(message))


def _text(message: SessionMessage) -> str:
    """Return the text of a message, or its tools if it has no text."""
    if message.content:
        return message.content[:TEXT_LENGTH]
    if message.tool_result is not None:
        return f"(result of {message.tool_result.tool_name})"
    tools = ", ".join(call.tool_name for call in message.tool_calls)
    return f"(called {tools})" if tools else ""


def _index(index: int | None) -> str:
    return "" if index is None else str(index)
