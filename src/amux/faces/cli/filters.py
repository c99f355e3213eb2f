"""Arguments that several commands share: which sessions, from when, how many."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from amux.errors import ValidationError
from amux.faces.cli.context import Context
from amux.faces.cli.figures import TIMES_HELP
from amux.faces.cli.parser import CommandParser


def add_session(parser: CommandParser) -> None:
    """One session, in one word or two."""
    parser.add_argument(
        "session",
        metavar="SESSION",
        nargs="+",
        help="`AGENT ID`, `AGENT:ID` or the beginning of an id",
    )
    parser.words = "session"


def add_examples(parser: CommandParser, *lines: str) -> None:
    """Show how the command is used below its help."""
    parser.epilog = "\n".join(["examples:", *(f"  {line}" for line in lines)])


def add_period(parser: CommandParser) -> None:
    """`--since` and `--until`, both inclusive."""
    parser.add_argument(
        "--since",
        metavar="TIME",
        type=_time,
        help=f"begun at or after: {TIMES_HELP}",
    )
    parser.add_argument("--until", metavar="TIME", type=_time, help="begun at or before")


def add_tags(parser: CommandParser) -> None:
    """`--tag`, any number of times; one match is enough."""
    parser.add_argument(
        "--tag", metavar="TAG", action="append", dest="tags", help="with this tag; may be repeated"
    )


def add_limit(parser: CommandParser, *, default: int) -> None:
    """`--limit N` or `--limit all`."""
    parser.add_argument(
        "--limit",
        metavar="N|all",
        type=limit_of,
        default=default,
        help=f"at most so many, or all ({default})",
    )


def add_csv(parser: CommandParser) -> None:
    """`--csv`."""
    parser.add_argument("--csv", action="store_true", help="print comma-separated values")


def wants_csv(context: Context) -> bool:
    """Whether comma-separated values were asked for, and not JSON as well."""
    if context.args.csv and context.is_json:
        raise ValidationError("give one of `--json` and `--csv`", fields=("csv",))
    return bool(context.args.csv)


def _time(text: str) -> str:
    """A time as typed; what it means depends on the clock and the zone of the client."""
    from amux.model.when import parse_when

    try:
        parse_when(text, now=datetime.now(UTC), zone=UTC)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"`{text}` is no time; try {TIMES_HELP}") from error
    return text


def whole_number(text: str) -> int:
    """A number from 0 up."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"`{text}` is no whole number")
    return int(text)


def limit_of(text: str) -> int | None:
    """A number from 0 up; None for `all`."""
    if text == "all":
        return None
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"`{text}` is neither a number nor `all`")
    return int(text)
