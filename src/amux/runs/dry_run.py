"""The command of a new run, without a client: a dry run imports little more than the table."""

from __future__ import annotations

from amux.launchers import LAUNCHERS, CommandPlan, LaunchRequest, UnsupportedError
from amux.runs.programs import find_program

TYPE_CHECKING = False  # importing `typing` would take a tenth of the time of a dry run
if TYPE_CHECKING:
    from collections.abc import Mapping

_PROGRAMS = {"cursor": "cursor-agent"}
"""The programs that are not called like their agent."""


def plain_command(agent: str, request: LaunchRequest, env: Mapping[str, str]) -> CommandPlan | None:
    """Return the command of a request; None if it needs more than the table of the agent.

    That is so for an agent without a table, a program that is not installed or must be asked for
    its version, and a request that the agent does not support.
    """
    launcher = LAUNCHERS.get(agent)
    program = find_program(_PROGRAMS.get(agent, agent), env.get("PATH"))
    if launcher is None or program is None or launcher.depends_on_version(request):
        return None
    try:
        plan = launcher.plan(request)
    except UnsupportedError:
        return None
    return CommandPlan((program, *plan.argv[1:]), plan.stdin, plan.format)
