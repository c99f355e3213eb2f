"""`amux help`: help on a command, or on one of the topics that belong to no command."""

from __future__ import annotations

import sys

from amux.errors import ValidationError
from amux.faces.cli.context import Context
from amux.faces.cli.parser import CommandParser, build_parser, closest
from amux.faces.cli.topics import TOPICS, topic_text


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "about", metavar="WORD", nargs="*", help=f"a command, or one of {', '.join(TOPICS)}"
    )


def run(context: Context) -> None:
    """Print a help text."""
    about: list[str] = context.args.about
    if len(about) == 1 and about[0] in TOPICS:
        sys.stdout.write(topic_text(about[0]))
        return
    parser = build_parser()
    for word in about:
        if word not in parser.children:
            raise ValidationError(
                f"there is no help on `{' '.join(about)}`",
                hint=closest(word, [*parser.children, *TOPICS]) or f"topics: {', '.join(TOPICS)}",
            )
        parser = parser.children[word]
    parser.load()
    sys.stdout.write(parser.format_help())
