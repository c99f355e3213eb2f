"""`amux agents`, `amux adapters list`: the agents amux can read and what they left here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amux.faces.cli.context import Context
from amux.faces.cli.figures import count, size
from amux.faces.cli.output import Column
from amux.faces.cli.parser import CommandParser
from amux.faces.cli.times import ago, rfc3339

if TYPE_CHECKING:
    from amux.sessions.overview import AgentStatus

_COLUMNS = (
    Column("Agent", style="cyan"),
    Column("Name"),
    Column("Tier"),
    Column("Sessions", is_number=True),
    Column("Newest"),
    Column("Size", is_number=True),
    Column("Where", grows=True),
)


def configure(parser: CommandParser) -> None:
    """No arguments of its own."""
    del parser


def run(context: Context) -> None:
    """Show every agent, found here or not."""
    output = context.output
    with context.busy("looking for agents"):
        agents = context.client.agents()
    chosen = [each for each in agents if context.args.agent in (None, each.name)]
    if not chosen:
        context.warn_of_unknown_agent()
    if context.is_json:
        output.json(chosen)
    elif output.is_terminal:
        output.table(_COLUMNS, (_for_people(context, each) for each in chosen))
        found = sum(1 for each in chosen if each.session_count)
        output.text(f"{count(found, 'agent')} with sessions here")
    else:
        output.rows(_for_programs(each) for each in chosen)


def _for_people(context: Context, agent: AgentStatus) -> tuple[str, ...]:
    return (
        agent.name,
        agent.label,
        agent.tier,
        f"{agent.session_count:,}" if agent.roots else "-",
        "" if agent.newest is None else ago(agent.newest, now=context.now),
        size(agent.bytes) if agent.roots else "",
        ", ".join(agent.roots) or "(not found)",
    )


def _for_programs(agent: AgentStatus) -> tuple[str, ...]:
    return (
        agent.name,
        agent.label,
        agent.tier,
        str(agent.session_count),
        "" if agent.newest is None else rfc3339(agent.newest),
        str(agent.bytes),
        ", ".join(agent.roots),
    )
