"""`amux sessions export`, `amux export`: write one session to stdout or to a file.

A session may contain secrets, so only the owner can read the file. An existing file is replaced
only with `--force`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from amux.errors import AmuxError, ValidationError
from amux.faces.cli.commands.show import FORMATS
from amux.faces.cli.context import Context, usable_path
from amux.faces.cli.filters import add_examples, add_session
from amux.faces.cli.parser import CommandParser, one_of

_OWNER_ONLY = 0o600


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    add_session(parser)
    add_examples(parser, "amux export claude:29c5cee3 --format markdown --output session.md")
    parser.add_argument("--format", **one_of(*FORMATS), default="json", help="output format (json)")
    parser.add_argument("--title", metavar="TEXT", help="title of a Markdown or HTML export")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to this file; `-` is stdout")
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")


def run(context: Context) -> None:
    """Export one session."""
    args = context.args
    ref = context.find(args.session)
    pieces = context.client.stream_export(
        ref.agent, ref.native_session_id, args.format, title=args.title
    )
    write_pieces(
        context,
        pieces,
        output=args.output,
        force=args.force,
        is_json=args.format in ("json", "jsonl"),
    )


def write_pieces(
    context: Context, pieces: Iterable[str], *, output: str | None, force: bool, is_json: bool
) -> None:
    """Write an export to stdout or to a file."""
    if output is None or output == "-":
        context.output.stream(pieces, is_json=is_json)
        return
    target = usable_path(output)
    try:
        if force:
            _replace(target, pieces)
        else:
            _create(target, pieces)
    except FileExistsError as error:
        raise ValidationError(
            f"`{target}` already exists", hint="use `--force` to replace it"
        ) from error
    except OSError as error:
        raise AmuxError(f"cannot write `{target}`: {error.strerror}") from error
    context.output.note(f"wrote `{target}`")


def _replace(target: Path, pieces: Iterable[str]) -> None:
    """Write a temporary file and rename it; a failure leaves the old file unchanged."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    _create(part, pieces)
    try:
        part.replace(target)
    except OSError:
        part.unlink()
        raise


def _create(target: Path, pieces: Iterable[str]) -> None:
    """Write a new file; remove it if writing fails."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    is_written = False
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.writelines(pieces)
        is_written = True
    finally:
        if not is_written:
            target.unlink()
