"""`amux` without a command, and `amux demo`: the sessions found here and what to do next."""

from __future__ import annotations

from amux.faces.cli.context import Context
from amux.faces.cli.figures import ago, count, money, rfc3339, short_ids
from amux.faces.cli.output import Column
from amux.faces.cli.parser import CommandParser
from amux.faces.cli.session_rows import write_sessions

TYPE_CHECKING = False  # importing `typing` would take a tenth of the time of a fast list
if TYPE_CHECKING:
    from amux.model.reports import AgentStatus, Overview

_COLUMNS = (
    Column("Agent", style="cyan"),
    Column("Sessions", is_number=True),
    Column("Newest"),
    Column("Where", grows=True),
)


def configure(parser: CommandParser) -> None:
    """Select the sample sessions: `amux demo` is the only command that uses this module."""
    parser.set_defaults(demo=True)


def run(context: Context) -> None:
    """Show the overview."""
    with context.reading("reading sessions"):
        overview = context.client.overview()
    found = [each for each in overview.agents if each.session_count]
    if context.is_json:
        context.output.json(overview)
    elif found and context.output.is_terminal:
        _draw(context, overview, found)
    elif found:
        _write_rows(context, overview, found)
    if not found:
        _note_nothing_found(context, overview)
    context.report_problems((*overview.problems, *context.client.run_index.problems))


def _note_nothing_found(context: Context, overview: Overview) -> None:
    if overview.problems:
        context.output.note("no session could be read in this home")
        context.output.hint("`amux doctor` shows which files could not be read")
        return
    context.output.note("no sessions of a supported agent were found in this home")
    context.output.hint("`amux --demo` shows sample sessions, `amux agents` the supported agents")


def _draw(context: Context, overview: Overview, found: list[AgentStatus]) -> None:
    output = context.output
    sessions = sum(each.session_count for each in found)
    output.heading(f"{count(sessions, 'session')} of {count(len(found), 'agent')}")
    rows = [
        (
            each.name,
            f"{each.session_count:,}",
            "" if each.newest is None else ago(each.newest, now=context.now),
            ", ".join(each.roots),
        )
        for each in found
    ]
    output.fitted_table(_COLUMNS, rows, spare=("Newest",))
    output.text()
    output.heading("Last sessions")
    write_sessions(output, overview.recent, now=context.now, by_update=True)
    week = overview.week
    output.text()
    output.text(f"Last 7 days: {_amount(overview)} in {count(week.session_count, 'session')}")
    amux = "amux --demo" if context.args.demo else "amux"
    ids = [each.session_id for each in overview.recent]
    first = short_ids(ids)[ids[0]] if ids else "ID"
    output.text(f"Next: `{amux} show {first}`, `{amux} search WORDS`, `{amux} cost`, `amux --help`")


def _amount(overview: Overview) -> str:
    week = overview.week
    return money(week) if week.session_count or week.incomplete else "nothing"


def _write_rows(context: Context, overview: Overview, found: list[AgentStatus]) -> None:
    output = context.output
    output.rows(
        (
            "agent",
            each.name,
            str(each.session_count),
            "" if each.newest is None else rfc3339(each.newest),
        )
        for each in found
    )
    output.rows(
        ("session", each.unified_id, rfc3339(each.updated_at), each.title)
        for each in overview.recent
    )
    output.rows([("week", str(overview.week.session_count), _amount(overview))])
