"""Writes data to stdout and messages to stderr.

A terminal gets tables; any other stdout gets rows separated by tabs, without headings. JSON has the
field names of the specification and is indented. All text from sessions passes through `safety`.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Sequence

from amux.faces.cli.safety import safe_json, safe_text

TYPE_CHECKING = False  # `typing` would double the imports of a help text
if TYPE_CHECKING:
    from typing import Literal

    from rich.console import Console

    ColorWhen = Literal["auto", "always", "never"]

Value = str | int | float | bool | None

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of a formula; the last four are the full-width forms of the first four."""


class Column:
    """The heading of a column and the format of its cells.

    A column that `grows` takes the remaining width. A column that `is_whole` is never shortened;
    numbers never are.
    """

    __slots__ = ("grows", "heading", "is_number", "is_whole", "style", "widest")

    def __init__(
        self,
        heading: str,
        *,
        is_number: bool = False,
        is_whole: bool = False,
        grows: bool = False,
        widest: int | None = None,
        style: str = "",
    ) -> None:
        self.heading = heading
        self.widest = widest
        self.is_number = is_number
        self.is_whole = is_whole or is_number
        self.grows = grows
        self.style = style


class Output:
    """The output of a command: data on stdout, messages on stderr."""

    def __init__(self, *, color: ColorWhen | None = None, is_quiet: bool = False) -> None:
        self.is_quiet = is_quiet
        self.shows_progress = not is_quiet and _is_terminal(sys.stderr)
        self.use_color(color or "auto")
        _prepare_streams(is_data=not _is_terminal(sys.stdout))

    def use_color(self, color: ColorWhen) -> None:
        """Apply `--color` or the setting; `always` writes as on a terminal."""
        self.color: ColorWhen = color
        self.is_terminal = color == "always" or _is_terminal(sys.stdout)

    def glyph(self, sign: str, plain: str) -> str:
        """Return a symbol, or its ASCII replacement if the encoding of stdout lacks the symbol."""
        try:
            sign.encode(sys.stdout.encoding or "ascii")
        except (UnicodeEncodeError, LookupError):
            return plain
        return sign

    def rows(self, rows: Iterable[Sequence[str]]) -> None:
        """Write rows separated by tabs."""
        for row in rows:
            sys.stdout.write("\t".join(safe_text(cell) for cell in row) + "\n")

    def table(
        self,
        columns: Sequence[Column],
        rows: Iterable[Sequence[str]],
        *,
        footer: Sequence[str] | None = None,
    ) -> None:
        """Draw a table on the terminal; the footer is a last row in bold."""
        from amux.faces.cli.tables import build_table

        self.console().print(build_table(columns, rows, footer=footer))

    def fitted_table(
        self, columns: Sequence[Column], rows: Sequence[Sequence[str]], *, spare: Sequence[str] = ()
    ) -> None:
        """Draw a table that fits the terminal; `spare` are the headings of optional columns."""
        from amux.faces.cli.tables import FittedTable

        FittedTable(columns, rows, None).draw(self, spare=spare)

    def text(self, text: str = "") -> None:
        """Write one line of text."""
        sys.stdout.write(safe_text(text) + "\n")

    def marked(self, text: str, ranges: Iterable[tuple[int, int]]) -> None:
        """Write one line of text with the characters in `ranges` highlighted."""
        from rich.text import Text

        line = Text(safe_text(text))  # maps single characters, so the ranges stay valid
        for start, end in ranges:
            line.stylize("bold yellow", start, end)
        self.console().print(line, soft_wrap=True)

    def heading(self, text: str) -> None:
        """Write one line of text in bold."""
        from rich.text import Text

        self.console().print(Text(safe_text(text), style="bold"), soft_wrap=True)

    def stream(self, pieces: Iterable[str], *, is_json: bool) -> None:
        """Write an export: unchanged to a file or pipe, made safe on a terminal."""
        for piece in pieces:
            if not self.is_terminal:
                sys.stdout.write(piece)
            elif is_json:
                sys.stdout.write(safe_json(piece))
            else:
                sys.stdout.write(safe_text(piece, multiline=True))

    def json(self, value: object) -> None:
        """Write a value of the model, or a list of them, as indented JSON."""
        import msgspec

        from amux.model.base import encode_json

        text = msgspec.json.format(encode_json(value), indent=2).decode("utf-8", "replace")
        sys.stdout.write(safe_json(text) + "\n")

    def json_texts(self, texts: Sequence[str]) -> None:
        """Write a list of texts that are already indented JSON, in the format of `json`."""
        inner = ",\n".join(texts).replace("\n", "\n  ")  # a JSON string contains no line break
        sys.stdout.write(safe_json(f"[\n  {inner}\n]\n" if texts else "[]\n"))

    def json_line(self, value: object) -> None:
        """Write a value of the model as one line of JSON."""
        from amux.model.base import encode_json

        sys.stdout.write(safe_json(encode_json(value).decode("utf-8", "replace")) + "\n")

    def note(self, text: str) -> None:
        """Write a note to stderr."""
        self._write_message("note", text)

    def warning(self, text: str) -> None:
        """Write a warning to stderr: something could not be done completely."""
        self._write_message("warning", text)

    def hint(self, text: str) -> None:
        """Write a hint to stderr: what to do next."""
        self._write_message("hint", text)

    def stopped(self, text: str) -> None:
        """Write a note after Ctrl-C, without flushing stdout, which could block."""
        if not self.is_quiet:
            echo = "\r" if self.shows_progress else ""  # overwrites the ^C that terminals show
            sys.stderr.write(f"{echo}note: {text}\n")

    def error(self, text: str) -> None:
        """Write an error message to stderr, even if messages are off."""
        sys.stdout.flush()
        sys.stderr.write(f"error: {safe_text(text)}\n")

    @property
    def has_color(self) -> bool:
        """Whether text is coloured: not with NO_COLOR, unless `--color` or a setting says so."""
        no_color = os.environ.get("NO_COLOR")  # noqa: TID251 - a face asks the process
        return not no_color if self.color == "auto" else self.color == "always"

    def console(self) -> Console:
        """Return a rich console on stdout."""
        from rich.console import Console

        return Console(
            file=sys.stdout,
            force_terminal=True,
            color_system="auto" if self.has_color else None,  # None: no bold text either
            no_color=False,
            highlight=False,
            emoji=False,
            markup=False,
        )

    def _write_message(self, kind: str, text: str) -> None:
        if not self.is_quiet:
            sys.stdout.flush()  # messages about data come after the data
            sys.stderr.write(f"{kind}: {safe_text(text)}\n")


def write_csv(header: Sequence[str], rows: Iterable[Sequence[Value]]) -> None:
    """Write a header and rows to stdout as RFC 4180 CSV.

    A spreadsheet evaluates a cell that looks like a formula, and models, folders and tags are text
    from sessions. Such a text gets a leading apostrophe, which marks it as text.
    """
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows([_csv_text(value) for value in row] for row in rows)


def dollars(amount: float) -> str:
    """Format an amount in nano-USD, the precision of sums."""
    return f"{amount:.9f}"


def _csv_text(value: Value) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            return safe_text(f"'{value}" if value.startswith(_FORMULA) else value)
        case _:
            return str(value)


def _is_terminal(stream: io.TextIOBase | object) -> bool:
    return isinstance(stream, io.TextIOBase) and not stream.closed and stream.isatty()


def _prepare_streams(*, is_data: bool) -> None:
    """Set both streams to replace unencodable characters; data is UTF-8 with bare line feeds."""
    for stream, is_machine_readable in ((sys.stdout, is_data), (sys.stderr, False)):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        if is_machine_readable:
            stream.reconfigure(encoding="utf-8", errors="replace", newline="\n")
        else:
            stream.reconfigure(errors="replace")
