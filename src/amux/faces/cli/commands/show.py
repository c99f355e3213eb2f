"""`amux sessions show`, `amux show`: print one session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amux.faces.cli.context import Context
from amux.faces.cli.filters import add_examples, add_session
from amux.faces.cli.parser import CommandParser, one_of

if TYPE_CHECKING:
    from amux.model.options import ExportFormat

FORMATS = ("json", "jsonl", "markdown", "html")


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    add_session(parser)
    add_examples(parser, "amux show 29c5cee3", "amux show codex 01a1e0d0 --format html > it.html")
    parser.add_argument(
        "--format", **one_of(*FORMATS), help="output format (markdown; json with --json)"
    )


def run(context: Context) -> None:
    """Print one session."""
    format: ExportFormat = context.args.format or ("json" if context.is_json else "markdown")
    ref = context.find(context.args.session)
    pieces = context.client.stream_export(ref.agent, ref.native_session_id, format)
    context.output.stream(pieces, is_json=format in ("json", "jsonl"))
