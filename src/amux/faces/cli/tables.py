"""Tables that fit the terminal without cutting a number, which would make it a wrong one.

Optional columns are dropped, the least important first, until the rest fits with long texts
shortened. Some of them are also dropped to make room for a bar; the others take precedence over the
bar. If even the required columns do not fit, each row is written as a block of lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from amux.faces.cli.output import Column, Output
from amux.faces.cli.safety import safe_text

PADDING = 2
SHORTEST_KEY = 16
SHORTEST_CUT = 8  # minimum width of a growing column
INDENT = "  "
BAR_WIDTHS = (8, 24)

_EIGHTHS = " ▏▎▍▌▋▊▉"
_FULL, _PLAIN = "█", "#"

Row = Sequence[str]


def build_table(
    columns: Sequence[Column],
    rows: Iterable[Sequence[str]],
    *,
    footer: Sequence[str] | None = None,
) -> Table:
    """Build a table without borders; only a column that grows is cut."""
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


class FittedTable:
    """A table of texts, numbers and optional bars that is fitted to the terminal."""

    def __init__(self, columns: Sequence[Column], rows: Sequence[Row], total: Row | None) -> None:
        self._columns = list(columns)
        self._rows = [[safe_text(cell) for cell in row] for row in rows]
        self._total = None if total is None else list(total)

    def draw(
        self,
        output: Output,
        *,
        spare: Sequence[str] = (),
        spare_for_bars: int = 0,
        shares: Sequence[float] = (),
    ) -> None:
        """Draw the table.

        `spare` are the headings of optional columns; the first `spare_for_bars` of them are also
        dropped to make room for bars. `shares` are the lengths of the bars, from 0 to 1.
        """
        console = output.console()
        bar_room = PADDING + BAR_WIDTHS[0] if any(shares) else 0
        for position, heading in enumerate(spare):
            wanted = bar_room if position < spare_for_bars else 0
            if self._narrowest() + wanted > console.width:
                self._drop(heading)
        if self._least() > console.width:
            self._draw_blocks(output, console.width)
            return
        if self._narrowest() + bar_room > console.width:
            bar_room = 0
        self._shorten_keys(console.width - bar_room)
        if bar_room:
            width = min(console.width - self._width() - PADDING, BAR_WIDTHS[1])
            self._add_bars(
                [bar(share, width, is_plain=console.options.ascii_only) for share in shares]
            )
        output.table(self._columns, self._rows, footer=self._total)

    def _widths(self) -> list[int]:
        headings = [column.heading for column in self._columns]
        lines = [headings, *self._rows, *([] if self._total is None else [self._total])]
        widths = [max(map(cell_len, cells)) for cells in zip(*lines, strict=True)]
        return list(map(_needed, self._columns, widths))

    def _width(self) -> int:
        widths = self._widths()
        return sum(widths) + PADDING * (len(widths) - 1)

    def _narrowest(self) -> int:
        """Return the width of the table with its texts shortened to their minimum."""
        widths = self._widths()
        return self._width() - sum(max(0, widths[at] - SHORTEST_KEY) for at in self._texts())

    def _least(self) -> int:
        """Return the width below which numbers would be cut or growing texts become unreadable."""
        widths = self._widths()
        growing = [at for at in self._texts() if self._columns[at].grows]
        return self._narrowest() - sum(max(0, widths[at] - SHORTEST_CUT) for at in growing)

    def _draw_blocks(self, output: Output, room: int) -> None:
        """Write each row as a block: its texts, then each number with its heading."""
        for row in (*self._rows, *(() if self._total is None else (self._total,))):
            cells = [*zip(self._columns, row, strict=True)]
            texts = [cell for column, cell in cells if cell and not column.is_number]
            for at, text in enumerate(texts):
                (output.text if at else output.heading)(shortened(text, room))
            for column, figure in cells:
                if column.is_number and figure:
                    output.text(_labelled(column.heading, figure, room))

    def _texts(self) -> list[int]:
        """Return the indexes of the columns that may be shortened."""
        return [at for at, column in enumerate(self._columns) if not column.is_whole]

    def _drop(self, heading: str) -> None:
        at = next(n for n, column in enumerate(self._columns) if column.heading == heading)
        del self._columns[at]
        for row in self._rows:
            del row[at]
        if self._total is not None:
            del self._total[at]

    def _shorten_keys(self, room: int) -> None:
        for at in reversed(self._texts()):
            if self._columns[at].grows:
                continue  # rich cuts it at the edge of the terminal
            excess = self._width() - room
            if excess <= 0:
                return
            width = max(SHORTEST_KEY, self._widths()[at] - excess)
            for row in self._rows:
                row[at] = shortened(row[at], width)

    def _add_bars(self, bars: Sequence[str]) -> None:
        self._columns.append(Column("", style="cyan"))
        for row, drawn in zip(self._rows, bars, strict=True):
            row.append(drawn)
        if self._total is not None:
            self._total.append("")


def _needed(column: Column, width: int) -> int:
    """Return the width that a column needs if its widest cell has this width."""
    if column.grows:
        return min(width, SHORTEST_KEY)
    return width if column.widest is None else min(width, column.widest)


def _labelled(heading: str, figure: str, room: int) -> str:
    """Return a line with heading and number, without the heading or indent if there is no room."""
    lines = (f"{INDENT}{heading} {figure}", f"{INDENT}{figure}", figure)
    return next((line for line in lines if cell_len(line) <= room), figure)


def shortened(text: str, width: int) -> str:
    """Cut a text to a width in cells; a path keeps its end, the most informative part."""
    if cell_len(text) <= width:
        return text
    keeps_end = "/" in text
    while cell_len(text) >= width:
        text = text[1:] if keeps_end else text[:-1]
    return f"…{text}" if keeps_end else f"{text}…"


def bar(share: float, width: int, *, is_plain: bool = False) -> str:
    """Return a bar for a share of the width; any share above 0 is visible."""
    if share <= 0:
        return ""
    if is_plain:
        return _PLAIN * max(1, round(share * width))
    eighths = max(1, round(min(share, 1) * width * 8))
    return _FULL * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
