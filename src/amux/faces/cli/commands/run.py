"""`amux run`: start an agent, with a prompt or in the terminal."""

from __future__ import annotations

import os
import sys

from amux.errors import ValidationError
from amux.faces.cli.context import Context, one_agent
from amux.faces.cli.parser import CommandParser, one_of
from amux.launchers import LAUNCHERS, LaunchRequest

TYPE_CHECKING = False  # importing `typing` would take a tenth of the time of a dry run
if TYPE_CHECKING:
    from argparse import Namespace
    from types import SimpleNamespace

    Arguments = Namespace | SimpleNamespace

_STDIN = "-"
_MOST_WORDS = 2


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.words = "words"  # options may stand between the agent and the prompt
    parser.add_argument(
        "words",
        nargs="*",
        metavar="AGENT PROMPT",
        help="the agent and the prompt; `-` reads it from stdin; without one it gets the terminal",
    )
    parser.add_argument("--session", metavar="REF", help="resume this session")
    parser.add_argument("--fork", metavar="REF", help="continue a copy of this session")
    parser.add_argument("--no-session", action="store_true", help="keep no session")
    add_run_options(parser)


def add_run_options(parser: CommandParser) -> None:
    """Add the options of every command that starts an agent."""
    from argparse import SUPPRESS  # the parser has imported it

    parser.add_argument(
        *("-m", "--model"),
        metavar="NAME",
        default=SUPPRESS,  # a global option, which has its default in the root parser
        help="the model, as the agent names it",
    )
    parser.add_argument("--cwd", metavar="DIR", help="directory in which the agent works")
    parser.add_argument(
        "--tag", metavar="TAG", dest="tags", action="append", help="tag the session (repeatable)"
    )
    parser.add_argument(
        "--timeout", type=_seconds, metavar="S", help="stop the agent after S seconds"
    )
    parser.add_argument(
        "--inactivity-timeout",
        type=_seconds,
        metavar="S",
        help="stop the agent after S seconds without output",
    )
    parser.add_argument(
        "--approval-mode",
        **one_of("prompt", "yolo"),
        help="`yolo` lets the agent do everything without asking",
    )
    parser.add_argument(
        "-i", "--interactive", action="store_true", help="give the terminal to the agent"
    )
    parser.add_argument(
        "--arg",
        metavar="WORD",
        dest="args",
        action="append",
        help="pass a further argument to the agent, as `--arg=--flag` (repeatable)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the command and start nothing"
    )


def run(context: Context) -> None:
    """Start the agent, or print the command."""
    args = context.args
    agent, prompt = _agent_and_prompt(args)
    if args.dry_run and _print_plain(context, agent, prompt):
        return
    if prompt == _STDIN:
        prompt = _read_prompt()
    from amux.faces.cli.running import start

    named = {"session": args.session, "fork": args.fork, "no_session": args.no_session}
    start(context, agent, prompt, named)


def _agent_and_prompt(args: Arguments) -> tuple[str | None, str | None]:
    """Return the agent and the prompt, of which each may be missing.

    If an option names the agent or a session, a single word is the prompt, unless it is the name of
    an agent.
    """
    words = args.words
    if len(words) > _MOST_WORDS:
        raise ValidationError(
            f"expected an agent and a prompt, got {len(words)} words",
            hint='put the prompt into quotes, as in `amux run claude "fix the test"`',
        )
    has_agent = args.agent is not None or args.session is not None or args.fork is not None
    if len(words) == 1 and has_agent and words[0] not in LAUNCHERS:
        return args.agent, words[0]
    agent = one_agent(words[0] if words else None, args.agent)
    return agent, words[1] if len(words) == _MOST_WORDS else None


def _print_plain(context: Context, agent: str | None, prompt: str | None) -> bool:
    """Print the command of a new session if the table of the agent suffices."""
    args = context.args
    is_checked = prompt is None or (prompt.strip() and prompt != _STDIN)
    is_plain = args.session is None and args.fork is None and is_checked
    if agent is None or not is_plain or args.json or args.demo or args.home or args.cwd:
        return False
    from amux.runs.dry_run import plain_command

    request = LaunchRequest(
        prompt=prompt,
        model=args.model,
        no_session=args.no_session,
        skips_approval=args.approval_mode == "yolo",
        is_interactive=args.interactive,
        is_structured=True,
        args=args.args or (),
    )
    environment = os.environ  # noqa: TID251 - a face is where the process is asked
    plan = plain_command(agent, request, environment)
    if plan is None:
        return False
    print_command(context, plan.argv, plan.stdin)
    return True


def print_command(context: Context, argv: tuple[str, ...], stdin: str | None) -> None:
    """Print a command as a shell reads it."""
    from shlex import join

    context.output.stream((f"{join(argv)}\n",), is_json=False)
    if stdin is not None:
        context.output.note("the prompt goes to the standard input of the agent")


def _read_prompt() -> str:
    data = sys.stdin.buffer.read() if sys.stdin is not None else b""
    return data.decode("utf-8", "surrogateescape")


def _seconds(text: str) -> float:
    """Return a positive number of seconds."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ValidationError(f"`{text}` is not a positive number of seconds")
    return seconds
