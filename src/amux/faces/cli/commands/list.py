"""`amux sessions list`, `amux list`: list sessions, newest first."""

from __future__ import annotations

from amux.faces.cli.context import Context, one_agent, working_directory
from amux.faces.cli.plain_lines import LIST_LIMIT

TYPE_CHECKING = False  # importing `typing` would take a tenth of the time of a fast list
if TYPE_CHECKING:
    from amux.faces.cli.parser import CommandParser
    from amux.index.fast_list import FastReport, FastTexts
    from amux.model.options import SessionListOptions
    from amux.model.reports import ListReport


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    from amux.faces.cli.filters import add_examples, add_limit, add_period, add_tags
    from amux.faces.cli.parser import one_of

    parser.add_argument("agent_word", metavar="AGENT", nargs="?", help="only this agent")
    add_period(parser)
    add_tags(parser)
    add_limit(parser, default=LIST_LIMIT)
    parser.add_argument(
        "--sort",
        **one_of("date", "cost", "turns", "updated"),
        default="date",
        help="sort order (date)",
    )
    parser.add_argument(
        "--direction", **one_of("asc", "desc"), default="desc", help="sort direction (desc)"
    )
    parser.add_argument("--starred", action="store_true", help="only starred sessions")
    parser.add_argument("--cwd", metavar="DIR", help="only sessions started in this directory")
    parser.add_argument("--children", action="store_true", help="also show sub-agents")
    parser.add_argument("--archived", action="store_true", help="also show archived sessions")
    add_examples(
        parser, "amux list claude --since 7d", "amux list --cwd . --sort cost", "amux list --json"
    )
    parser.add_argument("--all", action="store_true", help="same as --children --archived")


def run(context: Context) -> None:
    """List sessions."""
    args = context.args
    agent = one_agent(args.agent_word, args.agent)
    agents = None if agent is None else [agent]
    if _list_from_index(context, agents):
        return
    with context.reading("reading sessions"):
        report = context.client.list_report(agents, _options(context))
    if context.is_json:
        context.output.json(report.sessions)
        _note_omitted(context, report)
    else:
        _write(context, report)
    context.report_problems(report.problems)


def _list_from_index(context: Context, agents: list[str] | None) -> bool:
    """Write the list from the index alone if it is up to date; return whether it was written."""
    args = context.args
    if args.tags or args.starred or args.debug or args.cwd is not None:
        return False
    wanted = {
        "since": context.since,
        "until": context.until,
        "model": args.model,
        "limit": args.limit,
        "sort": args.sort,
        "descending": args.direction == "desc",
        "children": args.all or args.children,
        "archived": args.all or args.archived,
    }
    if context.is_json:
        texts = context.client.fast_texts(agents, **wanted)
        if texts is None:
            return False
        context.output.json_texts(texts.sessions)
        _note_omitted(context, texts)
        return True
    report = context.client.fast_list(agents, **wanted)
    if report is None:
        return False
    _write(context, report)
    return True


def _write(context: Context, report: ListReport | FastReport) -> None:
    from amux.faces.cli.session_rows import write_sessions

    by_update = context.args.sort == "updated"
    write_sessions(context.output, report.sessions, now=context.now, by_update=by_update)
    _note_omitted(context, report)


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


def _note_omitted(context: Context, report: ListReport | FastReport | FastTexts) -> None:
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
        parts.append(
            f"{count(report.truncated, 'session')} beyond the limit (`--limit all` shows them)"
        )
    if not report.sessions:
        parts.insert(0, "no session matches")
    if parts:
        context.output.note("; ".join(parts))
