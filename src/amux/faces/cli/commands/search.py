"""`amux sessions search`, `amux search`: find sessions by their text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amux.errors import ValidationError
from amux.faces.cli.context import Context
from amux.faces.cli.filters import add_examples, add_limit, add_period, add_tags, limit_of
from amux.faces.cli.parser import CommandParser, one_of

if TYPE_CHECKING:
    from amux.model.options import SessionQuery
    from amux.model.reports import SearchReport

DEFAULT_LIMIT = 50
DEFAULT_HITS = 3
ROLES = ("user", "assistant", "tool", "system", "thinking")


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "query",
        metavar="WORD",
        nargs="*",
        help="words that must all occur; see `amux help queries` for the syntax of queries",
    )
    parser.words = "query"
    parser.has_filters = True
    add_examples(
        parser,
        "amux search flaky test",
        """amux search '"exact words"' --since 1w --sort date""",
        "amux search timeout tool:Bash is:error project:shop",
    )
    add_period(parser)
    add_tags(parser)
    _add_filters(parser)
    add_limit(parser, default=DEFAULT_LIMIT)
    parser.add_argument(
        "--hits",
        metavar="N|all",
        type=limit_of,
        default=DEFAULT_HITS,
        help=f"maximum number of messages shown per session ({DEFAULT_HITS})",
    )
    parser.add_argument(
        "--sort",
        **one_of("relevance", "date", "cost"),
        default="relevance",
        help="sort order (relevance)",
    )
    parser.add_argument(
        "--exact", action="store_true", help="do not try similar words if nothing is found"
    )


def _add_filters(parser: CommandParser) -> None:
    def add(name: str, metavar: str, help: str) -> None:  # noqa: A002 - named by argparse
        parser.add_argument(
            f"--{name}",
            metavar=metavar,
            action="append",
            dest=f"{name}s",
            help=f"{help}; may be repeated",
        )

    add("project", "NAME", "only sessions started in a folder whose name contains this")
    add("tool", "NAME", "only messages that use this tool")
    add("file", "PATH", "only messages in which a tool gets a path that contains this")
    parser.add_argument(
        "--role",
        **one_of(*ROLES),
        action="append",
        dest="roles",
        help="only messages of this role; may be repeated",
    )
    parser.add_argument("--errors", action="store_true", help="only messages that report a failure")
    parser.add_argument("--said", action="store_true", help="do not search tool input and output")


def run(context: Context) -> None:
    """Search sessions."""
    query = _query(context)
    with context.reading("searching sessions"):
        report = context.client.search_report(query)
    if context.is_json:
        context.output.json(report.sessions)
    else:
        from amux.faces.cli.session_rows import write_hits

        write_hits(context.output, report.sessions, now=context.now)
    _note_outcome(context, report)
    context.report_problems(report.problems)


def _query(context: Context) -> SessionQuery:
    from amux.model.options import SessionQuery

    args = context.args
    text = " ".join(args.query)
    narrows = args.projects or args.tools or args.files or args.roles or args.errors
    if not args.query and not narrows:
        raise ValidationError(
            "no words to search for",
            hint="see `amux help queries`; put a query that begins with a dash after `--`",
        )
    return SessionQuery(
        text=text,
        agent=args.agent,
        since=context.since,
        until=context.until,
        model=args.model,
        tags=args.tags,
        limit=args.limit,
        sort=args.sort,
        projects=args.projects,
        tools=args.tools,
        files=args.files,
        roles=args.roles,
        errors=args.errors,
        said_only=args.said,
        hits=args.hits,
        exact=args.exact,
    )


def _note_outcome(context: Context, report: SearchReport) -> None:
    from amux.faces.cli.figures import count

    output = context.output
    for note in report.notes:
        output.note(note)
    asked = " ".join(context.args.query)
    if report.corrected_to is not None:
        output.note(f'nothing found for "{asked}"; showing results for "{report.corrected_to}"')
    elif not report.sessions and not report.truncated:
        output.note("nothing found")
    if report.truncated:
        output.note(
            f"{count(report.truncated, 'session')} beyond the limit (`--limit all` shows them)"
        )
