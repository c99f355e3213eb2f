"""`amux resume`, `amux sessions resume` and `fork`: continue a session in its agent."""

from __future__ import annotations

from amux.faces.cli.commands.run import add_run_options
from amux.faces.cli.context import Context
from amux.faces.cli.parser import CommandParser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amux.model.ids import NativeRef


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.words = "session"  # options may stand between the agent and the id
    parser.add_argument(
        "session",
        nargs="*",
        metavar="SESSION",
        help="`AGENT ID`, `AGENT:ID`, the beginning of an id or a title; without one, choose",
    )
    parser.add_argument("--prompt", metavar="TEXT", help="run non-interactively with this prompt")
    add_run_options(parser)


def run(context: Context) -> None:
    """Continue the session itself."""
    _continue_session(context, "session")


configure_fork = configure


def run_fork(context: Context) -> None:
    """Continue in a new session; the original stays unchanged."""
    _continue_session(context, "fork")


def _continue_session(context: Context, way: str) -> None:
    """Start the agent with the session's history; with `--dry-run` print the command."""
    from amux.faces.cli.running import start

    found = _chosen(context)
    if found is not None:
        named = {way: f"{found.agent}:{found.native_session_id}"}
        start(context, found.agent, context.args.prompt, named)


def _chosen(context: Context) -> NativeRef | None:
    """Return the session that the words name, or that the user picks; None if there is none."""
    words: list[str] = context.args.session
    if len(words) == 1 and words[0] in {info.name for info in context.client.adapters.list()}:
        context.args.agent, words = words[0], []
    if words:
        return context.find(words)
    from amux.faces.cli.picker import pick_session

    return pick_session(context)
