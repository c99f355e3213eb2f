"""`amux store retention` and `erase`: how long threads are kept, and the erasure of a user."""

from __future__ import annotations

from amux.errors import ValidationError
from amux.faces.cli.commands.store_manage import list_of, parse_days
from amux.faces.cli.confirm import add_confirmation, insist
from amux.faces.cli.context import Context
from amux.faces.cli.figures import count
from amux.faces.cli.filters import add_examples
from amux.faces.cli.parser import CommandParser
from amux.faces.cli.thread_rows import as_json, write_threads


def configure_retention(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "namespace", metavar="NAMESPACE", nargs="?", help="set the limit of this namespace"
    )
    parser.add_argument(
        "days", metavar="DAYS", nargs="?", type=parse_days, help="days without activity"
    )
    parser.add_argument("--remove", action="store_true", help="remove the limit of the namespace")
    add_examples(
        parser,
        "amux store retention",
        "amux store retention openai-agents 30",
        "amux store retention openai-agents --remove",
    )


def run_retention(context: Context) -> None:
    """Show the limits that `amux store prune` applies, or change one."""
    args, store = context.args, context.client.store
    if args.namespace is None:
        limits = store.retention()
        if context.is_json:
            context.output.json(limits)
        else:
            context.output.rows((name, f"{days:g}") for name, days in sorted(limits.items()))
        return
    if args.remove == (args.days is not None):
        raise ValidationError("give a number of days or `--remove`", fields=("days", "remove"))
    store.set_retention(args.namespace, args.days)
    result = {"namespace": args.namespace, "days": args.days}
    if args.days is None:
        context.confirm(result, f"threads of `{args.namespace}` no longer expire")
        return
    context.confirm(
        result,
        f"`amux store prune` deletes threads of `{args.namespace}` after "
        f"{args.days:g} days without activity",
    )


def configure_erase(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument("--user", metavar="ID", required=True, help="the id of the user")
    add_confirmation(parser)
    add_examples(
        parser, "amux store erase --user ann --dry-run", "amux store erase --user ann --yes"
    )


def run_erase(context: Context) -> None:
    """Delete everything that belongs to a user, in all namespaces."""
    args, store = context.args, context.client.store
    report = store.erase_user(args.user, dry_run=True)
    found = len(report.threads) + len(report.values)
    if found and not args.dry_run:
        number = count(len(report.threads), "thread")
        names = f": {list_of(report.threads)}" if report.threads else ""
        insist(context, f"erase {number} and {count(len(report.values), 'value')} for good{names}")
        report = store.erase_user(args.user)
        _forget_in_index(context)
    if context.is_json:
        context.output.json(as_json(report))
        return
    if args.dry_run:
        write_threads(context.output, report.threads, now=context.now)
    would = "would be " if args.dry_run else ""
    numbers = f"{count(len(report.threads), 'thread')}, {count(len(report.values), 'value')}"
    context.output.note(f"{numbers} and {count(report.blobs, 'blob')} {would}erased")


def _forget_in_index(context: Context) -> None:
    """Make the index of amux anew if there is one: unused pages of a database keep old texts."""
    status = context.client.index.status()
    if status.bytes or status.text_bytes:
        with context.reading("making the index anew"):
            context.client.index.rebuild(texts=status.text_bytes > 0)
