"""`amux sessions resume` and `amux sessions fork`: continue a session in its agent."""

from __future__ import annotations

import shlex

from amux.faces.cli.context import Context
from amux.faces.cli.parser import CommandParser


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "session",
        nargs="+",
        metavar="SESSION",
        help="`AGENT ID`, `AGENT:ID` or the beginning of an id",
    )
    parser.add_argument("--prompt", metavar="TEXT", help="run non-interactively with this prompt")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the command and start nothing"
    )


def run(context: Context) -> None:
    """Continue the session itself."""
    _continue_session(context, fork=False)


configure_fork = configure


def run_fork(context: Context) -> None:
    """Continue in a new session; the original stays unchanged."""
    _continue_session(context, fork=True)


def _continue_session(context: Context, *, fork: bool) -> None:
    """Start the agent with the session's history; with `--dry-run` print the command."""
    found = context.find(context.args.session)
    client, output = context.client, context.output
    with context.busy("asking the agent for its version"):
        launch = client.plan_run(
            "fork" if fork else "resume", ref=found, prompt=context.args.prompt
        )
    if context.args.dry_run:
        if context.is_json:
            output.json(launch)
        else:
            output.text(shlex.join(launch.argv))
        return
    if launch.cwd is None:
        output.warning("the directory of the session no longer exists: starting in the current one")
    raise SystemExit(client.start(launch))
