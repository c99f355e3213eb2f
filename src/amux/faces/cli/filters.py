"""Arguments that several commands share: session, period, tags, limit, CSV."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from amux.errors import ValidationError
from amux.faces.cli.context import Context
from amux.faces.cli.figures import TIMES_HELP
from amux.faces.cli.parser import CommandParser


def add_session(parser: CommandParser) -> None:
    """Add SESSION, which takes one or two words."""
    parser.add_argument(
        "session",
        metavar="SESSION",
        nargs="+",
        help="`AGENT ID`, `AGENT:ID` or the beginning of an id",
    )
    parser.words = "session"


def add_examples(parser: CommandParser, *lines: str) -> None:
    """Add examples below the help text of a command."""
    parser.epilog = "\n".join(["examples:", *(f"  {line}" for line in lines)])


def add_period(parser: CommandParser, *, of: str = "sessions started") -> None:
    """Add `--since` and `--until`, both inclusive."""
    parser.add_argument(
        "--since",
        metavar="TIME",
        type=_time,
        help=f"only {of} at or after this time: {TIMES_HELP}",
    )
    parser.add_argument(
        "--until", metavar="TIME", type=_time, help=f"only {of} at or before this time"
    )


def add_tags(parser: CommandParser) -> None:
    """Add `--tag`, which may be repeated; a session needs only one of the tags."""
    parser.add_argument(
        "--tag",
        metavar="TAG",
        action="append",
        dest="tags",
        help="only sessions with this tag; may be repeated",
    )


def add_limit(parser: CommandParser, *, default: int, noun: str = "sessions") -> None:
    """Add `--limit`, which takes a number or `all`."""
    parser.add_argument(
        "--limit",
        metavar="N|all",
        type=limit_of,
        default=default,
        help=f"maximum number of {noun}, or all ({default})",
    )


def add_csv(parser: CommandParser) -> None:
    """Add `--csv`."""
    parser.add_argument("--csv", action="store_true", help="print comma-separated values")


def wants_csv(context: Context) -> bool:
    """Return whether `--csv` was given; raise `ValidationError` if `--json` was given, too."""
    if context.args.csv and context.is_json:
        raise ValidationError("`--json` and `--csv` cannot be combined", fields=("csv",))
    return bool(context.args.csv)


def _time(text: str) -> str:
    """Check and return a typed time; its meaning depends on the client's clock and zone."""
    from amux.model.when import parse_when

    try:
        parse_when(text, now=datetime.now(UTC), zone=UTC)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"`{text}` is not a time; use {TIMES_HELP}") from error
    return text


def whole_number(text: str) -> int:
    """Parse an integer of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"`{text}` is not a whole number")
    return int(text)


def limit_of(text: str) -> int | None:
    """Parse an integer of at least 0; return None for `all`."""
    if text == "all":
        return None
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"`{text}` is neither a number nor `all`")
    return int(text)
