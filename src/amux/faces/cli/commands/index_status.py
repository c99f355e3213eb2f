"""`amux index status`: where the index is, what it holds, what is stale."""

from __future__ import annotations

from amux.faces.cli.context import Context
from amux.faces.cli.filters import add_examples
from amux.faces.cli.index_rows import write_status
from amux.faces.cli.parser import CommandParser


def configure(parser: CommandParser) -> None:
    """Add examples; there are no arguments."""
    add_examples(parser, "amux index status", "amux index status --json")


def run(context: Context) -> None:
    """Show it."""
    write_status(context, context.client.index.status())
