"""`amux sessions search`, `amux search`: find sessions by their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amux.faces.cli.context import Context
from amux.faces.cli.filters import add_examples, add_limit, add_period, add_tags
from amux.faces.cli.parser import CommandParser, one_of

if TYPE_CHECKING:
    from amux.model.options import SessionQuery
    from amux.model.session import SessionSummary

DEFAULT_LIMIT = 50


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "query",
        metavar="WORD",
        nargs="+",
        help='all must occur; also "a phrase", OR, NOT and prefix*',
    )
    parser.words = "query"
    add_examples(
        parser, "amux search flaky test", """amux search '"exact words"' --since 1w --sort date"""
    )
    add_period(parser)
    add_tags(parser)
    add_limit(parser, default=DEFAULT_LIMIT)
    parser.add_argument(
        "--sort",
        **one_of("relevance", "date", "cost"),
        default="relevance",
        help="order (relevance)",
    )


def run(context: Context) -> None:
    """Search."""
    with context.busy("searching sessions"):
        report = context.client.search_report(_query(context))
    if context.is_json:
        context.output.json(report.sessions)
    else:
        _write(context, report.sessions)
    if not report.sessions:
        context.output.note("nothing found")
        context.warn_of_unknown_agent()
    context.report_problems(report.problems)


def _query(context: Context) -> SessionQuery:
    from amux.model.options import SessionQuery

    args = context.args
    return SessionQuery(
        text=" ".join(args.query),
        agent=args.agent,
        since=context.since,
        until=context.until,
        model=args.model,
        tags=args.tags,
        limit=args.limit,
        sort=args.sort,
    )


def _write(context: Context, sessions: tuple[SessionSummary, ...]) -> None:
    from amux.faces.cli.session_rows import write_hits

    write_hits(context.output, sessions, now=context.now)
