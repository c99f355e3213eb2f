"""`amux tag`: add tags to a session, remove them, show all tags."""

from __future__ import annotations

from amux.errors import ValidationError
from amux.faces.cli.context import Context
from amux.faces.cli.filters import add_examples
from amux.faces.cli.output import Column
from amux.faces.cli.parser import CommandParser


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "session",
        metavar="SESSION",
        nargs="?",
        help="`AGENT:ID` or the beginning of an id; if omitted, all tags are shown",
    )
    parser.add_argument(
        "tags",
        metavar="TAG",
        nargs="*",
        help="a tag, one word; if omitted, the session's tags are shown",
    )
    parser.words = "tags"
    parser.add_argument("--remove", action="store_true", help="remove these tags from the session")
    add_examples(
        parser, "amux tag 29c5cee3 flaky to-review", "amux tag 29c5cee3 flaky --remove", "amux tag"
    )


def run(context: Context) -> None:
    """Add, remove or show tags."""
    args = context.args
    if args.session is None:
        if args.tags or args.remove:
            raise ValidationError("no session is given", fields=["session"])
        _show_all(context)
    elif args.tags:
        _change(context)
    elif args.remove:
        raise ValidationError("no tag is given", fields=["tags"], hint="name the tags to remove")
    else:
        _show(context)
    context.report_problems(context.client.annotations.problems())


def _change(context: Context) -> None:
    args, manager = context.args, context.client.annotations
    change = manager.untag if args.remove else manager.tag
    found = change(args.session, *args.tags, agent=args.agent)
    tags = ", ".join(found.tags) or "no tags of your own"
    context.confirm(found, f"{found.unified_id}: {tags}")


def _show(context: Context) -> None:
    found = context.client.annotations.of(context.args.session, agent=context.args.agent)
    if context.is_json:
        context.output.json(found)
        return
    context.output.rows((tag,) for tag in found.tags)
    if not found.tags:
        context.output.note(f"{found.unified_id} has no tags of your own")


def _show_all(context: Context) -> None:
    output, counts = context.output, context.client.annotations.tags()
    if context.is_json:
        output.json(counts)
    elif output.is_terminal and counts:
        columns = (Column("Tag", style="cyan"), Column("Sessions", is_number=True))
        rows = [(tag, f"{number:,}") for tag, number in counts.items()]
        output.fitted_table(columns, rows)
    else:
        output.rows((tag, str(number)) for tag, number in counts.items())
    if not counts:
        output.note("no session has a tag")
