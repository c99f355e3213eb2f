"""Comma-separated values for spreadsheets: RFC 4180, with a header, figures in full.

A spreadsheet runs a cell that begins like a formula, and models, folders and tags are text from
sessions. Such a text gets an apostrophe in front, which a spreadsheet takes as "this is text".
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence

from amux.errors import ValidationError
from amux.faces.cli.context import Context
from amux.faces.cli.parser import CommandParser
from amux.faces.cli.safety import safe_text

Value = str | int | float | bool | None

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a formula may begin; the last four are the same signs in full width."""


def add_csv(parser: CommandParser) -> None:
    """`--csv`."""
    parser.add_argument("--csv", action="store_true", help="print comma-separated values")


def wants_csv(context: Context) -> bool:
    """Whether comma-separated values were asked for, and not JSON as well."""
    if context.args.csv and context.is_json:
        raise ValidationError("give one of `--json` and `--csv`", fields=("csv",))
    return bool(context.args.csv)


def write_csv(header: Sequence[str], rows: Iterable[Sequence[Value]]) -> None:
    """Write a header and rows to stdout."""
    writer = csv.writer(sys.stdout, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows([_text(value) for value in row] for row in rows)


def dollars(amount: float) -> str:
    """An amount to the nano-USD, which is what sums are made in."""
    return f"{amount:.9f}"


def _text(value: Value) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            return safe_text(f"'{value}" if value.startswith(_FORMULA) else value)
        case _:
            return str(value)
