"""The state of the index, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amux.faces.cli.context import Context
from amux.faces.cli.figures import UNKNOWN, count, size
from amux.faces.cli.output import Column

if TYPE_CHECKING:
    from amux.model.reports import IndexedSources, IndexStatus

_COLUMNS = (
    Column("Agent", style="cyan"),
    Column("Sources", is_number=True),
    Column("Kept", is_number=True),
    Column("Stale", is_number=True),
    Column("To read", is_number=True),
    Column("Texts", is_number=True),
    Column("Sessions", is_number=True),
    Column("Sub-agents", is_number=True),
)


def write_update(context: Context, status: IndexStatus) -> None:
    """Print the state after an update; that it could not be made is an error."""
    write_status(context, status, warns=False)
    status.insist()


def write_status(context: Context, status: IndexStatus, *, warns: bool = True) -> None:
    """Print the state of the index."""
    output = context.output
    if warns and status.trouble is not None:
        output.warning(f"the index cannot be used: {status.trouble}; commands read the sources")
    if warns and status.text_trouble is not None:
        output.warning(
            f"the texts cannot be used: {status.text_trouble}; a search reads the sources"
        )
    if context.is_json:
        output.json(status)
        return
    if status.path is None:
        output.note("there is no index: it is switched off, or this home is not yours to write to")
        return
    if not output.is_terminal:
        output.rows(map(_row, status.agents))
        return
    _draw(context, status)
    stale = sum(each.stale for each in status.agents)
    if stale:
        output.note(f"{count(stale, 'source')} will be read when needed (`amux index update`: now)")


def _row(each: IndexedSources) -> tuple[str, ...]:
    """What programs get; new figures come last."""
    kept = (each.sources, each.kept, each.stale, each.stale_bytes, each.sessions, each.subagents)
    return each.agent, *map(str, kept), "" if each.texts is None else str(each.texts)


def _draw(context: Context, status: IndexStatus) -> None:
    from amux.faces.cli.tables import Figures

    output = context.output
    output.text(f"{status.path}: {size(status.bytes)}")
    output.text(f"texts for searching: {_texts(status)}")
    rows = [
        (each.agent, f"{each.sources:,}", f"{each.kept:,}", f"{each.stale:,}",
         size(each.stale_bytes), "-" if each.texts is None else f"{each.texts:,}",
         f"{each.sessions:,}", f"{each.subagents:,}")
        for each in status.agents
    ]  # fmt: skip
    if rows:
        table = Figures(_COLUMNS, rows, None)
        table.draw(output, spare=("Kept", "To read", "Sub-agents", "Stale"))


def _texts(status: IndexStatus) -> str:
    """How much of what can be searched is ready for it."""
    if status.text_trouble is not None:
        return UNKNOWN
    if not status.text_bytes:
        return "none yet, the first search makes them"
    asked = [each for each in status.agents if each.texts is not None]
    ready, all_of_them = sum(each.texts or 0 for each in asked), sum(each.sources for each in asked)
    tools = "with" if status.texts_have_tools else "without"
    return (
        f"{size(status.text_bytes)}, {ready:,} of {count(all_of_them, 'source')},"
        f" {tools} tool input and output"
    )
