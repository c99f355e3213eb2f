"""`amux follow`: print the messages of a session as they are written."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from amux.faces.cli.context import Context
from amux.faces.cli.filters import add_examples
from amux.faces.cli.parser import CommandParser

if TYPE_CHECKING:
    from amux.client import Client
    from amux.faces.cli.output import Output
    from amux.model.change import SessionChange
    from amux.model.ids import NativeRef


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "session",
        metavar="SESSION",
        nargs="*",
        help="`AGENT ID`, `AGENT:ID` or the beginning of an id (the session written to last)",
    )
    parser.words = "session"
    parser.add_argument(
        "--from-start", action="store_true", help="also print the existing messages"
    )
    add_examples(parser, "amux follow", "amux follow 29c5cee3 --json | jq .message.content")


def run(context: Context) -> None:
    """Print messages until Ctrl-C, until stdout is closed or until the session is deleted."""
    ref = _session(context)
    client, output = context.client, context.output
    changes = client.follow(
        ref.agent, ref.native_session_id, from_start=context.args.from_start, stop=_is_reader_gone
    )
    with changes:
        output.note(f"following {ref.agent}:{ref.native_session_id}; press Ctrl-C to stop")
        context.is_endless = True
        show = output.json_line if context.is_json else _Document(output, client, ref)
        for change in changes:
            show(change)
            sys.stdout.flush()


def _session(context: Context) -> NativeRef:
    if context.args.session:
        return context.find(context.args.session)
    with context.busy("looking for the last session"):
        return context.client.find_latest(agent=context.args.agent)


class _Document:
    """Writes messages as `amux show` prints them, and other changes to stderr."""

    def __init__(self, output: Output, client: Client, ref: NativeRef) -> None:
        self._output, self._client = output, client
        self._speaker = f"{ref.agent}:{ref.native_session_id}"
        self._on_terminal = _terminal_writer(output, client) if output.is_terminal else None

    def __call__(self, change: SessionChange) -> None:
        name = change.unified_id
        match change.kind:
            case "problem":
                self._output.warning(f"{name}: {change.problem}")
            case "replaced":
                self._output.note(f"{name}: rewritten from message {change.number} on")
            case "ended":
                self._output.note(f"{name} no longer exists")
            case _ if self._on_terminal is not None:
                self._on_terminal(change)
            case _:
                pieces = self._client.render_change(change, speaker=self._speaker)
                self._output.stream(pieces, is_json=False)
                self._speaker = name


def _terminal_writer(output: Output, client: Client) -> Callable[[SessionChange], None]:
    """Return a function that writes the message of a change for people."""
    from amux.faces.cli.paint import painter_for, terminal_size

    lines_of = client.terminal_changes(width=terminal_size().columns)
    painter = painter_for(output)

    def write(change: SessionChange) -> None:
        sys.stdout.writelines(map(painter.paint, lines_of(change)))

    return write


def _is_reader_gone() -> bool:
    """Return whether stdout is a closed pipe; the next write could be hours away."""
    import select

    if not hasattr(select, "poll"):  # Windows: the next write fails instead
        return False
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
