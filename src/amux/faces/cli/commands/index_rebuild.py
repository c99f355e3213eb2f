"""`amux index rebuild`: throw the index away and read everything again."""

from __future__ import annotations

from amux.faces.cli.context import Context
from amux.faces.cli.filters import add_examples
from amux.faces.cli.index_rows import write_update
from amux.faces.cli.parser import CommandParser


def configure(parser: CommandParser) -> None:
    """What to rebuild."""
    parser.add_argument("--texts", action="store_true", help="the texts for searching, too")
    add_examples(parser, "amux index rebuild --texts")


def run(context: Context) -> None:
    """Rebuild and show the outcome."""
    with context.reading("reading everything"):
        status = context.client.index.rebuild(texts=context.args.texts)
    write_update(context, status)
