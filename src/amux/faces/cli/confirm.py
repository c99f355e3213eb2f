"""Asks before a command removes something: on a terminal, or with `--yes` not at all."""

from __future__ import annotations

import sys

from amux.errors import AmuxError, ErrorCode, ValidationError
from amux.faces.cli.context import Context
from amux.faces.cli.parser import CommandParser
from amux.faces.cli.safety import safe_text


def add_confirmation(parser: CommandParser) -> None:
    """Add `--yes` and `--dry-run`."""
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be done, and do nothing"
    )


def insist(context: Context, question: str) -> None:
    """Return if the user agrees; `question` has no question mark.

    Raises:
        ValidationError: There is no terminal to ask on and no `--yes`.
        AmuxError: The answer is no.
    """
    if context.args.yes:
        return
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        raise ValidationError(
            f"there is no terminal to ask on: {question}?",
            fields=("yes",),
            hint="`--yes` answers it, `--dry-run` shows what would be done",
        )
    sys.stdout.flush()
    sys.stderr.write(f"{safe_text(question)}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise AmuxError("nothing was done", code=ErrorCode.ABORTED)
