"""stdout is data, stderr is talk.

On a terminal people get tables; everywhere else rows are separated by tabs, without headings. JSON
is the specification's types, indented. Everything that comes from a session passes `safety`.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Sequence

from amux.faces.cli.safety import safe_json, safe_text

TYPE_CHECKING = False  # `typing` is half of what a help text would import
if TYPE_CHECKING:
    from typing import Literal

    from rich.console import Console

    ColorWhen = Literal["auto", "always", "never"]

Value = str | int | float | bool | None

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a formula may begin; the last four are the same signs in full width."""


class Column:
    """A heading and how its cells are set.

    `grows` takes the width that is left; `is_whole` is never shortened, as numbers never are.
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
    """Where a command writes."""

    def __init__(self, *, color: ColorWhen | None = None, is_quiet: bool = False) -> None:
        self.is_quiet = is_quiet
        self.shows_progress = not is_quiet and _is_terminal(sys.stderr)
        self.use_color(color or "auto")
        _prepare_streams(is_data=not _is_terminal(sys.stdout))

    def use_color(self, color: ColorWhen) -> None:
        """Follow `--color` or the setting; `always` means as on a terminal."""
        self.color: ColorWhen = color
        self.is_terminal = color == "always" or _is_terminal(sys.stdout)

    def glyph(self, sign: str, plain: str) -> str:
        """A sign, or its plain stand-in where stdout cannot show it."""
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
        """Draw a table for people; the footer is one more row below a line."""
        from amux.faces.cli.tables import build_table

        self.console().print(build_table(columns, rows, footer=footer))

    def text(self, text: str = "") -> None:
        """Write one line for people."""
        sys.stdout.write(safe_text(text) + "\n")

    def marked(self, text: str, ranges: Iterable[tuple[int, int]]) -> None:
        """Write one line for people with some of its characters standing out."""
        from rich.text import Text

        line = Text(safe_text(text))  # no character becomes two: the ranges still fit
        for start, end in ranges:
            line.stylize("bold yellow", start, end)
        self.console().print(line, soft_wrap=True)

    def heading(self, text: str) -> None:
        """Write one line for people that stands out."""
        from rich.text import Text

        self.console().print(Text(safe_text(text), style="bold"), soft_wrap=True)

    def stream(self, pieces: Iterable[str], *, is_json: bool) -> None:
        """Write an export: as it is off a terminal, harmless on one."""
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
        """Write a list of values that are indented JSON already, as `json` would."""
        inner = ",\n".join(texts).replace("\n", "\n  ")  # no line ends inside a JSON string
        sys.stdout.write(safe_json(f"[\n  {inner}\n]\n" if texts else "[]\n"))

    def json_line(self, value: object) -> None:
        """Write a value of the model as one line of JSON."""
        from amux.model.base import encode_json

        sys.stdout.write(safe_json(encode_json(value).decode("utf-8", "replace")) + "\n")

    def note(self, text: str) -> None:
        """Say something worth knowing."""
        self._write_message("note", text)

    def warning(self, text: str) -> None:
        """Say that something could not be done in full."""
        self._write_message("warning", text)

    def hint(self, text: str) -> None:
        """Say what to do next."""
        self._write_message("hint", text)

    def stopped(self, text: str) -> None:
        """Say why there is no more output; waits for nobody who reads what there is."""
        if not self.is_quiet:
            echo = "\r" if self.shows_progress else ""  # over the ^C that terminals show
            sys.stderr.write(f"{echo}note: {text}\n")

    def error(self, text: str) -> None:
        """Say what failed; never quiet."""
        sys.stdout.flush()
        sys.stderr.write(f"error: {safe_text(text)}\n")

    def console(self) -> Console:
        """The rich console on stdout."""
        from rich.console import Console

        return Console(
            file=sys.stdout,
            force_terminal=True,
            color_system="auto" if self._is_coloured else None,  # None: nothing stands out either
            no_color=False,
            highlight=False,
            emoji=False,
            markup=False,
        )

    @property
    def _is_coloured(self) -> bool:
        if self.color == "auto":
            return not os.environ.get("NO_COLOR")  # noqa: TID251 - a face asks the process
        return self.color == "always"

    def _write_message(self, kind: str, text: str) -> None:
        if not self.is_quiet:
            sys.stdout.flush()  # talk about data comes after the data
            sys.stderr.write(f"{kind}: {safe_text(text)}\n")


def write_csv(header: Sequence[str], rows: Iterable[Sequence[Value]]) -> None:
    """Write a header and rows to stdout."""
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows([_csv_text(value) for value in row] for row in rows)


def dollars(amount: float) -> str:
    """An amount to the nano-USD, which is what sums are made in."""
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
    """UTF-8 and bare line feeds for programs, and no character that makes writing fail."""
    for stream, is_machine_readable in ((sys.stdout, is_data), (sys.stderr, False)):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        if is_machine_readable:
            stream.reconfigure(encoding="utf-8", errors="replace", newline="\n")
        else:
            stream.reconfigure(errors="replace")
