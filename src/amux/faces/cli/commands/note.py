"""`amux note`: add a note to a session, show its notes, remove a note."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from amux.errors import ValidationError
from amux.faces.cli.context import Context
from amux.faces.cli.figures import ago, rfc3339
from amux.faces.cli.filters import add_examples
from amux.faces.cli.parser import CommandParser

if TYPE_CHECKING:
    from amux.model.annotation import SessionAnnotations


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument("session", metavar="SESSION", help="`AGENT:ID` or the beginning of an id")
    parser.add_argument(
        "text",
        metavar="TEXT",
        nargs="*",
        default=[],  # without it argparse reports the argument as required
        help="the note, or `-` to read it from stdin; if omitted, the notes are shown",
    )
    parser.words = "text"
    parser.add_argument(
        "--remove", metavar="NUMBER", type=_number, help="remove the note with this number"
    )
    add_examples(
        parser,
        'amux note 29c5cee3 "the fix is in the third answer"',
        "git log -1 | amux note 29c5cee3 -",
        "amux note 29c5cee3",
        "amux note 29c5cee3 --remove 1",
    )


def run(context: Context) -> None:
    """Add, remove or show notes."""
    args, manager = context.args, context.client.annotations
    if args.remove is not None:
        if args.text:
            raise ValidationError(
                "TEXT and `--remove` cannot be combined", fields=["text", "remove"]
            )
        found = manager.remove_note(args.session, args.remove, agent=args.agent)
        context.confirm(found, f"note {args.remove} removed from {found.unified_id}")
    elif args.text:
        number = manager.add_note(args.session, _text(args.text), agent=args.agent)
        found = manager.of(args.session, agent=args.agent)
        context.confirm(found, f"note {number} added to {found.unified_id}")
    else:
        _show(context, manager.of(args.session, agent=args.agent))
    context.report_problems(manager.problems())


def _show(context: Context, found: SessionAnnotations) -> None:
    output = context.output
    if context.is_json:
        output.json(found)
        return
    if not output.is_terminal:
        output.rows((str(note.number), rfc3339(note.at), note.text) for note in found.notes)
    else:
        for note in found.notes:
            output.heading(f"{note.number}  {ago(note.at, now=context.now)}")
            for line in note.text.splitlines():
                output.text(f"  {line}")
    if not found.notes:
        output.note(f"{found.unified_id} has no notes")


def _text(words: list[str]) -> str:
    if words != ["-"]:
        return " ".join(words)
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"`{text}` is not the number of a note")
    return int(text)
