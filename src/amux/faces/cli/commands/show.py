"""`amux sessions show`, `amux show`: print one session.

On a terminal the session is laid out for people, through a pager if it does not fit. In a pipe or
a file it is Markdown, as with `--format markdown`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from amux.faces.cli.context import Context
from amux.faces.cli.filters import add_examples, add_session
from amux.faces.cli.parser import CommandParser, one_of

if TYPE_CHECKING:
    from amux.model.ids import NativeRef
    from amux.model.options import ExportFormat

FORMATS = ("json", "jsonl", "markdown", "html")


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    add_session(parser)
    add_examples(
        parser,
        "amux show 29c5cee3",
        "amux show 29c5cee3 --full",
        "amux show codex 01a1e0d0 --format html > it.html",
    )
    parser.add_argument(
        "--format",
        **one_of(*FORMATS),
        help="output format (for people on a terminal, else markdown; json with --json)",
    )
    parser.add_argument(
        "--full", action="store_true", help="fold nothing: show every line of every message"
    )
    parser.add_argument(
        "--no-pager", action="store_true", help="do not start a pager for a long session"
    )


def run(context: Context) -> None:
    """Print one session."""
    format: ExportFormat | None = context.args.format or ("json" if context.is_json else None)
    ref = context.find(context.args.session)
    if format is None and context.output.is_terminal:
        _show(context, ref)
        return
    format = format or "markdown"
    pieces = context.client.stream_export(ref.agent, ref.native_session_id, format)
    context.output.stream(pieces, is_json=format in ("json", "jsonl"))


def _show(context: Context, ref: NativeRef) -> None:
    """Print one session for people."""
    from amux.faces.cli.pager import page
    from amux.faces.cli.paint import painter_for, terminal_size

    size = terminal_size()
    lines = context.client.stream_terminal(
        ref.agent, ref.native_session_id, width=size.columns, full=context.args.full
    )
    texts = map(painter_for(context.output).paint, lines)
    if context.args.no_pager or not sys.stdout.isatty():
        sys.stdout.writelines(texts)
    else:
        page(texts, context.output, rows=size.lines)
