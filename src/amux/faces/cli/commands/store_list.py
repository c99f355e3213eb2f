"""`amux store list`, `show`, `search`, `lineage` and `stats`: read the session store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amux.errors import ValidationError
from amux.faces.cli.commands.show import FORMATS
from amux.faces.cli.context import Context, working_directory
from amux.faces.cli.figures import UNKNOWN, count
from amux.faces.cli.filters import add_examples, add_limit, add_period, whole_number
from amux.faces.cli.output import Column
from amux.faces.cli.parser import CommandParser, one_of
from amux.faces.cli.thread_rows import as_json, recorded_cost, write_message_hits, write_threads

if TYPE_CHECKING:
    from amux.model.options import ExportFormat
    from amux.store.reports import Child, Lineage, StoreStats

THREAD_HELP = "an id, the beginning of an id, a title, or `amux:ID`"
LIST_LIMIT = 100
SEARCH_LIMIT = 20
ROLES = ("user", "assistant", "system", "tool")


def add_thread(parser: CommandParser) -> None:
    """Add THREAD."""
    parser.add_argument("thread", metavar="THREAD", help=THREAD_HELP)


def configure_list(parser: CommandParser) -> None:
    """Add the arguments."""
    add_period(parser, of="threads that were active")
    add_limit(parser, default=LIST_LIMIT, noun="threads")
    parser.add_argument("--offset", metavar="N", type=whole_number, default=0, help="skip so many")
    parser.add_argument(
        "--sort",
        **one_of("active", "created", "title"),
        default="active",
        help="sort order (active)",
    )
    parser.add_argument("--cwd", metavar="DIR", help="only threads started in this directory")
    parser.add_argument("--source", metavar="NAME", help="only threads of this source")
    parser.add_argument("--tag", metavar="TAG", help="only threads with this tag")
    parser.add_argument("--archived", action="store_true", help="only archived threads")
    parser.add_argument("--all", action="store_true", help="also archived threads")
    add_examples(parser, "amux store list", "amux store list --since 7d --source cli --json")


def run_list(context: Context) -> None:
    """List threads."""
    args = context.args
    threads = context.client.store.list(
        archived=None if args.all else args.archived,
        cwd=None if args.cwd is None else working_directory(args.cwd),
        model=args.model,
        source=args.source,
        tag=args.tag,
        agent=args.agent,
        since=context.since,
        until=context.until,
        order="last_active" if args.sort == "active" else args.sort,
        limit=args.limit,
        offset=args.offset,
    )
    if context.is_json:
        context.output.json(as_json(threads))
    else:
        write_threads(context.output, threads, now=context.now)
    if not threads:
        context.output.note("no thread matches")


def configure_show(parser: CommandParser) -> None:
    """Add the arguments."""
    add_thread(parser)
    parser.add_argument(
        "--format", **one_of(*FORMATS), help="output format (markdown; json with --json)"
    )
    add_examples(parser, "amux store show 29c5cee3", "amux store show 'Release notes' --json")


def run_show(context: Context) -> None:
    """Print one thread, as `amux show amux:ID` does."""
    format: ExportFormat = context.args.format or ("json" if context.is_json else "markdown")
    thread = context.client.store.thread(context.args.thread)
    pieces = context.client.stream_export("amux", thread.thread_id, format)
    context.output.stream(pieces, is_json=format in ("json", "jsonl"))


def configure_search(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "query",
        metavar="WORD",
        nargs="+",
        help='words that must all occur; "phrases", OR, NOT and prefix* are possible',
    )
    parser.words = "query"
    parser.add_argument("--thread", metavar="THREAD", help=f"only this thread: {THREAD_HELP}")
    parser.add_argument(
        "--role",
        **one_of(*ROLES),
        action="append",
        dest="roles",
        help="only messages of this role; may be repeated",
    )
    parser.add_argument(
        "--source",
        metavar="NAME",
        action="append",
        dest="sources",
        help="only threads of this source; may be repeated",
    )
    parser.add_argument(
        "--sort", **one_of("rank", "newest", "oldest"), default="rank", help="sort order (rank)"
    )
    parser.add_argument("--rewound", action="store_true", help="also rewound messages")
    parser.add_argument(
        "--limit",
        metavar="N",
        type=whole_number,
        default=SEARCH_LIMIT,
        help=f"maximum number of messages ({SEARCH_LIMIT})",
    )
    parser.add_argument("--offset", metavar="N", type=whole_number, default=0, help="skip so many")
    add_examples(parser, "amux store search flaky test", "amux store search deploy --sort newest")


def run_search(context: Context) -> None:
    """Search the messages of all threads."""
    args, store = context.args, context.client.store
    text = " ".join(args.query)
    if not text.strip():
        raise ValidationError("no words to search for", fields=("query",))
    hits = store.search(
        text,
        sources=args.sources,
        roles=args.roles,
        limit=args.limit,
        offset=args.offset,
        sort=args.sort,
        include_inactive=args.rewound,
        thread_id=None if args.thread is None else store.resolve(args.thread),
    )
    if context.is_json:
        context.output.json(as_json(hits))
    else:
        write_message_hits(context.output, hits, now=context.now)
    if not hits:
        context.output.note("nothing found")


def configure_lineage(parser: CommandParser) -> None:
    """Add the arguments."""
    add_thread(parser)
    add_examples(parser, "amux store lineage 29c5cee3")


def run_lineage(context: Context) -> None:
    """Show where a thread comes from, and what comes from it."""
    lineage = context.client.store.lineage(context.args.thread)
    if context.is_json:
        context.output.json(as_json(lineage))
    elif context.output.is_terminal:
        _draw_lineage(context, lineage)
    else:
        context.output.rows(_lineage_rows(lineage))
    if not lineage.ancestors and not lineage.descendants:
        context.output.note("the thread has no relatives")


def _lineage_rows(lineage: Lineage) -> list[tuple[str, ...]]:
    return [
        *(
            ("ancestor", f"amux:{each.parent}", each.kind, f"amux:{each.thread_id}", "")
            for each in reversed(lineage.ancestors)
        ),
        *(
            ("descendant", f"amux:{each.thread_id}", each.kind, f"amux:{each.parent}",
             each.title or "")
            for each in lineage.descendants
        ),
    ]  # fmt: skip


def _draw_lineage(context: Context, lineage: Lineage) -> None:
    """Write the ancestors, the thread and its descendants, one level deeper each."""
    depth = 0
    for each in reversed(lineage.ancestors):
        context.output.text(f"{'  ' * depth}amux:{each.parent}")
        depth += 1
    kind = f"  ({lineage.ancestors[0].kind})" if lineage.ancestors else ""
    context.output.heading(f"{'  ' * depth}amux:{lineage.thread_id}{kind}")
    depths = {lineage.thread_id: depth}
    for each in _by_parent(lineage):
        depths[each.thread_id] = depths[each.parent] + 1
        indent = "  " * depths[each.thread_id]
        title = f"  {each.title}" if each.title else ""
        context.output.text(f"{indent}amux:{each.thread_id}  ({each.kind}){title}")


def _by_parent(lineage: Lineage) -> list[Child]:
    """Return the descendants, each directly below its parent and older siblings."""
    ordered: list[Child] = []
    pending = [each for each in reversed(lineage.descendants) if each.parent == lineage.thread_id]
    while pending:
        child = pending.pop()
        ordered.append(child)
        pending += [
            each for each in reversed(lineage.descendants) if each.parent == child.thread_id
        ]
    return ordered


def configure_stats(parser: CommandParser) -> None:
    """Add examples; the command has no arguments."""
    add_examples(parser, "amux store stats", "amux store stats --json")


def run_stats(context: Context) -> None:
    """Show counts over all threads."""
    stats = context.client.store.stats()
    if context.is_json:
        context.output.json(as_json(stats))
        return
    output = context.output
    facts = (
        ("threads", str(stats.threads)),
        ("archived", str(stats.archived)),
        ("messages", str(stats.messages)),
        ("turns", str(stats.turns)),
        ("resumes", str(stats.resumes.attempts)),
        ("complete_resumes", str(stats.resumes.complete)),
        ("cleared_soon_after_resume", str(stats.resumes.cleared_soon)),
    )
    if not output.is_terminal:
        output.rows(facts)
        output.rows(("model", *row) for row in _model_rows(stats, is_plain=True))
        return
    output.text(
        f"{count(stats.threads, 'thread')} ({stats.archived:,} archived), "
        f"{count(stats.messages, 'message')}, {count(stats.turns, 'turn')}"
    )
    resumes = stats.resumes
    if resumes.success_rate is not None:
        output.text(
            f"{count(resumes.attempts, 'resume')}, {resumes.success_rate:.0%} complete, "
            f"{resumes.cleared_soon:,} soon followed by a clear"
        )
    if stats.models:
        columns = [
            Column("Model"),
            *(Column(name, is_number=True) for name in ("Threads", "Input", "Cache read")),
            *(Column(name, is_number=True) for name in ("Cache write", "Output", "Recorded cost")),
        ]
        spare = ("Cache write", "Cache read", "Threads")
        output.fitted_table(columns, _model_rows(stats, is_plain=False), spare=spare)


def _model_rows(stats: StoreStats, *, is_plain: bool) -> list[tuple[str, ...]]:
    return [
        (
            each.model or UNKNOWN,
            *(
                str(number) if is_plain else f"{number:,}"
                for number in (
                    each.threads,
                    each.input_tokens,
                    each.cache_read_tokens,
                    each.cache_write_tokens,
                    each.output_tokens,
                )
            ),
            recorded_cost(round(each.cost_usd * 1e9)),
        )
        for each in stats.models
    ]
