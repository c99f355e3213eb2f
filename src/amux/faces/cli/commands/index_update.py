"""`amux index update`: read what is new or has changed, now rather than when it is needed."""

from __future__ import annotations

from amux.faces.cli.context import Context
from amux.faces.cli.filters import add_examples
from amux.faces.cli.index_rows import write_update
from amux.faces.cli.parser import CommandParser


def configure(parser: CommandParser) -> None:
    """What to update."""
    parser.add_argument("--texts", action="store_true", help="the texts for searching, too")
    add_examples(parser, "amux index update", "amux index update --texts")


def run(context: Context) -> None:
    """Update and show the outcome."""
    with context.reading("reading sources"):
        status = context.client.index.update(texts=context.args.texts)
    write_update(context, status)
