"""Starts the background indexer after an answer, and is the program that it runs.

`python -m amux.faces.cli.background OPTIONS... DESCRIPTOR` completes the index and ends. A person
does not type it: `amux index update --texts` does the same in the foreground.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from amux.faces.cli.context import Context
from amux.faces.cli.output import Output

if TYPE_CHECKING:
    from amux.client import Client

_ON: Final = frozenset({"1", "on", "yes", "true"})
_OFF: Final = frozenset({"0", "off", "no", "false"})


def start_indexer(context: Context, client: Client) -> None:
    """Start the indexer, unless the environment, the settings or the kind of output bar it."""
    environment = os.environ  # noqa: TID251 - a face is where the process is asked
    wish = environment.get("AMUX_BACKGROUND", "").strip().lower()
    is_forced = wish in _ON
    if wish in _OFF or not sys.executable:
        return
    if not is_forced and (
        not context.output.is_terminal
        or environment.get("CI", "").strip()
        or not client.config.index_in_background
    ):
        return
    sys.stdout.flush()  # the answer comes first
    # -P: the directory in which the process starts must not provide modules.
    command = [sys.executable, "-P", "-m", __name__, *context.client_options()]
    client.background.start(command, after_pause=not is_forced)


def main() -> None:
    """Run the indexer in this process, which has no terminal: nothing is printed."""
    from amux.faces.cli.parser import parse

    *options, handed_over = sys.argv[1:]
    args, _ = parse(["index", "update", *options])
    Context(args, Output(is_quiet=True)).client.background.run(handed_over)


if __name__ == "__main__":
    main()
