"""`amux agents`, `amux adapters list`: the supported agents and the sessions found here.

The table fits a terminal of a hundred columns; a single agent is shown with all details.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from amux.faces.cli.context import Context, one_agent
from amux.faces.cli.figures import UNKNOWN, ago, count, rfc3339, size
from amux.faces.cli.filters import add_examples
from amux.faces.cli.output import Column
from amux.faces.cli.parser import CommandParser

if TYPE_CHECKING:
    from datetime import datetime

    from amux.model.reports import AgentStatus

_NOT_FOUND = "(not found)"
_VERSION_WIDTH = 9
_COLUMNS = (
    Column("Agent", style="cyan"),
    Column("Sessions", is_number=True),
    Column("Oldest"),
    Column("Newest"),
    Column("Size", is_number=True),
    Column("Version", widest=_VERSION_WIDTH),
    Column("Where", grows=True),
    Column("Offers"),
)
_SPARE = ("Version", "Oldest", "Newest")
_WIDTH_FOR_ALL = 96  # narrower terminals get no last column, to leave room for the paths


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "agent_word", metavar="AGENT", nargs="?", help="show all details of this agent"
    )
    add_examples(parser, "amux agents", "amux agents claude", "amux agents --json")


def run(context: Context) -> None:
    """Show every agent, found here or not, or one with all details."""
    args, output = context.args, context.output
    args.agent = one_agent(args.agent_word, args.agent)
    with context.reading("looking for agents"):
        chosen = context.client.agents(args.agent)
    if not chosen:
        context.warn_unknown_agent()
    if context.is_json:
        output.json(chosen)
    elif output.is_terminal:
        _draw(context, chosen)
    else:
        output.rows(_plain_row(each) for each in chosen)


def _draw(context: Context, chosen: Sequence[AgentStatus]) -> None:
    output = context.output
    if context.args.agent is not None:
        for each in chosen:
            output.heading(f"{each.label} ({each.name})")
            for line in _details(context, each):
                output.text(line)
        return
    shown = len(_COLUMNS) - (output.console().width < _WIDTH_FOR_ALL)
    rows = [_terminal_row(context, each)[:shown] for each in chosen]
    output.fitted_table(_COLUMNS[:shown], rows, spare=_SPARE)
    found = sum(1 for each in chosen if each.session_count)
    output.text(f"{count(found, 'agent')} with sessions here; `amux agents NAME` shows its details")


def _terminal_row(context: Context, agent: AgentStatus) -> tuple[str, ...]:
    here = bool(agent.roots)
    return (
        agent.name,
        f"{agent.session_count:,}" if here else "-",
        _when(agent.oldest, now=context.now),
        _when(agent.newest, now=context.now),
        size(agent.bytes) if here else "",
        (agent.version or UNKNOWN) if agent.session_count else "",
        ", ".join(map(_short, agent.roots)) or _NOT_FOUND,
        " ".join(_offers(agent)),
    )


def _details(context: Context, agent: AgentStatus) -> Iterator[str]:
    """Yield one line per fact; lines are not cut to the terminal."""
    for root in agent.roots or (_NOT_FOUND,):
        yield f"  found      {root}"
    if agent.session_count:
        span = f"{_when(agent.oldest, now=context.now)} to {_when(agent.newest, now=context.now)}"
        yield f"  sessions   {agent.session_count:,}, {span}"
        yield f"  version    {agent.version or UNKNOWN} (last seen)"
    if agent.roots:
        yield f"  size       {size(agent.bytes)}"
    yield f"  resume     {_yes(agent.can_resume)}"
    yield f"  fork       {_yes(agent.can_fork)}"
    yield f"  usage      {'recorded' if agent.records_usage else 'not recorded'}"
    yield f"  storage    {agent.session_persistence}"
    yield f"  tier       {agent.tier}"
    yield f"  evidence   {agent.evidence or UNKNOWN}"


def _plain_row(agent: AgentStatus) -> tuple[str, ...]:
    return (
        agent.name,
        agent.label,
        agent.tier,
        str(agent.session_count),
        "" if agent.newest is None else rfc3339(agent.newest),
        str(agent.bytes),
        ", ".join(agent.roots),
        "" if agent.oldest is None else rfc3339(agent.oldest),
        agent.version or "",
        " ".join(_offers(agent)),
    )


def _offers(agent: AgentStatus) -> Iterator[str]:
    """Yield what the agent's sessions support; `usage` means that it records tokens."""
    if agent.can_resume:
        yield "resume"
    if agent.can_fork:
        yield "fork"
    if agent.records_usage:
        yield "usage"


def _when(moment: datetime | None, *, now: datetime) -> str:
    return "" if moment is None else ago(moment, now=now)


def _yes(can: bool) -> str:  # noqa: FBT001 - formats a flag
    return "yes" if can else "no"


def _short(root: str) -> str:
    """Return a path with the user's home directory abbreviated to `~`."""
    home = os.path.expanduser("~").replace(os.sep, "/").rstrip("/")  # noqa: PTH111 - a missing home is no error
    return f"~{root[len(home) :]}" if home and root.startswith(f"{home}/") else root
