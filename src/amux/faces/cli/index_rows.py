"""The state of the index, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amux.faces.cli.context import Context
from amux.faces.cli.figures import count, size
from amux.faces.cli.output import Column

if TYPE_CHECKING:
    from amux.sessions.upkeep import IndexStatus

_COLUMNS = (
    Column("Agent", style="cyan"),
    Column("Sources", is_number=True),
    Column("Kept", is_number=True),
    Column("Stale", is_number=True),
    Column("To read", is_number=True),
    Column("Sessions", is_number=True),
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
    if context.is_json:
        output.json(status)
        return
    if status.path is None:
        output.note("there is no index: it is switched off, or this home is not yours to write to")
        return
    agents = status.agents
    if not output.is_terminal:
        output.rows(
            (a.agent, *map(str, (a.sources, a.kept, a.stale, a.stale_bytes, a.sessions)))
            for a in agents
        )
        return
    output.text(f"{status.path}: {size(status.bytes)}, texts {size(status.text_bytes)}")
    if agents:
        from amux.faces.cli.fitting import Figures

        rows = [
            (a.agent, f"{a.sources:,}", f"{a.kept:,}", f"{a.stale:,}", size(a.stale_bytes),
             f"{a.sessions:,}")
            for a in agents
        ]  # fmt: skip
        Figures(_COLUMNS, rows, None).draw(output, spare=("Kept", "To read"))
    stale = sum(a.stale for a in agents)
    if stale:
        output.note(f"{count(stale, 'source')} will be read when needed (`amux index update`: now)")
