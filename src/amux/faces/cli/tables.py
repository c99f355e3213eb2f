"""Tables for people; the only module that draws with rich."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from amux.faces.cli.output import Column
from amux.faces.cli.safety import safe_text


def build_table(
    columns: Sequence[Column],
    rows: Iterable[Sequence[str]],
    *,
    footer: Sequence[str] | None = None,
) -> Table:
    """A table without lines; the growing column is cut, the others are not."""
    table = Table(
        box=None,
        padding=(0, 2, 0, 0),
        pad_edge=False,
        header_style="bold",
        footer_style="bold",
        show_footer=footer is not None,
        expand=any(column.grows for column in columns),
    )
    for position, column in enumerate(columns):
        table.add_column(
            column.heading,
            justify="right" if column.is_number else "left",
            no_wrap=True,
            overflow="ellipsis",
            style=column.style,
            max_width=column.widest,
            ratio=1 if column.grows else None,
            footer=Text(safe_text(footer[position])) if footer else "",
        )
    for row in rows:
        table.add_row(*(Text(safe_text(cell)) for cell in row))
    return table
