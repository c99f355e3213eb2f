"""`amux sessions list`, `amux list`: sessions, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amux.faces.cli.context import Context, one_agent, working_directory
from amux.faces.cli.filters import add_examples, add_limit, add_period, add_tags
from amux.faces.cli.parser import CommandParser, one_of

if TYPE_CHECKING:
    from amux.model.options import SessionListOptions
    from amux.sessions.listing import ListReport

DEFAULT_LIMIT = 100


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument("agent_word", metavar="AGENT", nargs="?", help="only this agent")
    add_period(parser)
    add_tags(parser)
    add_limit(parser, default=DEFAULT_LIMIT)
    parser.add_argument(
        "--sort", **one_of("date", "cost", "turns", "updated"), default="date", help="order (date)"
    )
    parser.add_argument(
        "--direction", **one_of("asc", "desc"), default="desc", help="of the order (desc)"
    )
    parser.add_argument("--starred", action="store_true", help="with a star")
    parser.add_argument("--cwd", metavar="DIR", help="started in this directory")
    parser.add_argument("--children", action="store_true", help="show sub-agents too")
    parser.add_argument("--archived", action="store_true", help="show archived sessions too")
    add_examples(
        parser, "amux list claude --since 7d", "amux list --cwd . --sort cost", "amux list --json"
    )
    parser.add_argument("--all", action="store_true", help="same as --children --archived")


def run(context: Context) -> None:
    """List."""
    args, output = context.args, context.output
    agent = one_agent(args.agent_word, args.agent)
    with context.busy("reading sessions"):
        report = context.client.list_report(None if agent is None else [agent], _options(context))
    if context.is_json:
        output.json(report.sessions)
    else:
        from amux.faces.cli.session_rows import write_sessions

        write_sessions(output, report.sessions, now=context.now, by_update=args.sort == "updated")
    _say_what_is_missing(context, report)
    context.report_problems(report.problems)


def _options(context: Context) -> SessionListOptions:
    from amux.model.options import SessionListOptions

    args = context.args
    return SessionListOptions(
        since=context.since,
        until=context.until,
        model=args.model,
        tags=args.tags,
        limit=args.limit,
        sort=args.sort,
        sort_direction=args.direction,
        cwd=None if args.cwd is None else working_directory(args.cwd),
        include_children=args.all or args.children,
        include_archived=args.all or args.archived,
        starred=args.starred,
    )


def _say_what_is_missing(context: Context, report: ListReport) -> None:
    from amux.faces.cli.figures import count

    hidden = [
        count(number, noun)
        for number, noun in (
            (report.hidden_children, "sub-agent"),
            (report.hidden_archived, "archived session"),
        )
        if number
    ]
    parts = [f"{' and '.join(hidden)} not shown (`--all` shows them)"] if hidden else []
    if report.truncated:
        parts.append(f"{count(report.truncated, 'session')} beyond the limit (`--limit all`)")
    if not report.sessions:
        parts.insert(0, "no session fits")
    if parts:
        context.output.note("; ".join(parts))
