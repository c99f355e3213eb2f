"""`amux store archive`, `unarchive`, `clear`, `delete`, `prune` and `vacuum`: put threads away.

What cannot be undone is asked for first.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from amux.errors import ValidationError
from amux.faces.cli.commands.store_list import THREAD_HELP, add_thread
from amux.faces.cli.confirm import add_confirmation, insist
from amux.faces.cli.context import Context
from amux.faces.cli.figures import count, size
from amux.faces.cli.filters import add_examples
from amux.faces.cli.parser import CommandParser
from amux.faces.cli.thread_rows import as_json, write_threads

if TYPE_CHECKING:
    from amux.rollout.threads import ThreadSummary

PRUNE_DAYS = 90.0
_NAMES_SHOWN = 3
_MOST_DAYS = 36_500


def parse_days(text: str) -> float:
    """Parse a number of days."""
    try:
        days = float(text.removesuffix("d"))
    except ValueError:
        days = -1.0
    if not 0 <= days < _MOST_DAYS:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of days")
    return days


def configure_archive(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument("threads", metavar="THREAD", nargs="*", default=[], help=THREAD_HELP)
    parser.add_argument(
        "--older-than", metavar="DAYS", type=parse_days, help="threads not active for so many days"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be done, and do nothing"
    )
    add_examples(parser, "amux store archive 29c5cee3", "amux store archive --older-than 30")


def run_archive(context: Context) -> None:
    """Move threads to the archive."""
    args, store = context.args, context.client.store
    if bool(args.threads) == (args.older_than is not None):
        raise ValidationError("name threads or use `--older-than`", fields=("threads",))
    if args.older_than is not None:
        found = store.archive_older_than(args.older_than, dry_run=args.dry_run)
    else:
        found = _named(context, args.threads)
        for thread in () if args.dry_run else found:
            store.archive(thread.thread_id)
    _report(context, found, "archived", is_dry=args.dry_run)


def configure_unarchive(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument("threads", metavar="THREAD", nargs="+", help=THREAD_HELP)
    add_examples(parser, "amux store unarchive 29c5cee3")


def run_unarchive(context: Context) -> None:
    """Bring threads back from the archive."""
    found = _named(context, context.args.threads)
    for thread in found:
        context.client.store.unarchive(thread.thread_id)
    _report(context, found, "back from the archive")


def _named(context: Context, names: Sequence[str]) -> list[ThreadSummary]:
    """Return the threads that are named; all must exist before anything is done."""
    store = context.client.store
    ids = dict.fromkeys(store.resolve(name) for name in names)
    return [store.thread(each).summary for each in ids]


def _report(
    context: Context, threads: Sequence[ThreadSummary], done: str, *, is_dry: bool = False
) -> None:
    """Print the threads that were changed, or would be."""
    if context.is_json:
        context.output.json(
            {"threadIds": [each.thread_id for each in threads], "dryRun": is_dry},
        )
        return
    if is_dry:
        write_threads(context.output, threads, now=context.now)
    would = "would be " if is_dry else ""
    context.output.note(f"{count(len(threads), 'thread')} {would}{done}")


def list_of(threads: Sequence[ThreadSummary]) -> str:
    """Return the names of the first threads, and how many more there are."""
    names = [f"`{each.label}`" for each in threads[:_NAMES_SHOWN]]
    more = len(threads) - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more > 0 else "")


def configure_clear(parser: CommandParser) -> None:
    """Add the arguments."""
    add_thread(parser)
    add_confirmation(parser)
    add_examples(parser, "amux store clear 29c5cee3 --yes")


def run_clear(context: Context) -> None:
    """Empty the conversation of a thread; the history stays readable."""
    args = context.args
    thread = context.client.store.thread(args.thread)
    number = len(thread.conversation_records())
    what = f"{count(number, 'message')} of `{thread.summary.label}`"
    if not args.dry_run:
        insist(context, f"take {what} out of the conversation")
        thread.clear()
        thread.close()
    would = "would be " if args.dry_run else ""
    result = {"threadId": thread.thread_id, "messages": number, "dryRun": args.dry_run}
    context.confirm(result, f"{what} {would}taken out of the conversation")


def configure_delete(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument("threads", metavar="THREAD", nargs="+", help=THREAD_HELP)
    add_confirmation(parser)
    add_examples(parser, "amux store delete 29c5cee3", "amux store delete 29c5cee3 --dry-run")


def run_delete(context: Context) -> None:
    """Delete threads with all their records."""
    args, store = context.args, context.client.store
    ids = list(dict.fromkeys(store.resolve(name) for name in args.threads))
    found = [each for each in map(store.log.get, ids) if each is not None]  # a damaged one has none
    if not args.dry_run:
        names = f": {list_of(found)}" if found else ""
        insist(context, f"delete {count(len(ids), 'thread')} for good{names}")
        for thread_id in ids:
            store.delete(thread_id)
    if context.is_json:
        context.output.json({"threadIds": ids, "dryRun": args.dry_run})
        return
    if args.dry_run:
        write_threads(context.output, found, now=context.now)
    would = "would be " if args.dry_run else ""
    context.output.note(f"{count(len(ids), 'thread')} {would}deleted")


def configure_prune(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--older-than",
        metavar="DAYS",
        type=parse_days,
        default=PRUNE_DAYS,
        help=f"threads not active for so many days ({PRUNE_DAYS:.0f})",
    )
    parser.add_argument("--source", metavar="NAME", help="only threads of this source")
    parser.add_argument("--all", action="store_true", help="also threads that were never ended")
    add_confirmation(parser)
    add_examples(parser, "amux store prune --dry-run", "amux store prune --older-than 30 --yes")


def run_prune(context: Context) -> None:
    """Delete old threads, and those that have passed the limit of their namespace."""
    args, store = context.args, context.client.store
    ended = None if args.all else True
    prune = partial(store.prune, older_than_days=args.older_than, source=args.source, ended=ended)
    report = prune(dry_run=True)
    if report.threads and not args.dry_run:
        number = count(len(report.threads), "thread")
        insist(context, f"delete {number} for good: {list_of(report.threads)}")
        report = prune()
    if context.is_json:
        context.output.json(as_json(report))
        return
    _report(context, report.threads, "deleted", is_dry=args.dry_run)


def configure_vacuum(parser: CommandParser) -> None:
    """Add the arguments."""
    add_thread(parser)
    parser.add_argument(
        "--erase",
        metavar="RECORD",
        action="append",
        default=[],
        help="also remove this record; may be repeated",
    )
    add_confirmation(parser)
    add_examples(parser, "amux store vacuum 29c5cee3 --dry-run", "amux store vacuum 29c5cee3 --yes")


def run_vacuum(context: Context) -> None:
    """Remove rewound and replaced records of a thread for good."""
    args, store = context.args, context.client.store
    thread = store.thread(args.thread)
    report = store.vacuum(thread.thread_id, erase=args.erase, dry_run=True)
    number = count(report.removed, "record")
    if args.dry_run or not report.removed:
        result = {"threadId": thread.thread_id, "removed": report.removed, "dryRun": args.dry_run}
        context.confirm(result, f"{number} would be removed")
        return
    insist(context, f"remove {number} of `{thread.summary.label}` for good")
    report = store.vacuum(thread.thread_id, erase=args.erase)
    result = {"threadId": thread.thread_id, **as_json(report), "dryRun": False}
    saved = size(max(0, report.bytes_before - report.bytes_after))
    context.confirm(result, f"{count(report.removed, 'record')} removed, {saved} saved")
