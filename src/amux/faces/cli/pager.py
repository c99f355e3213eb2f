"""Writes lines to the terminal, through a pager if they do not fit on the screen.

The pager is `AMUX_PAGER`, else `PAGER`, else `less -R`; blank or `cat` means none. It is started
without a shell as soon as there are more lines than rows, and gets the lines while they are read.
Without a variable LESS, `less` ends by itself if everything fits and leaves the text on the screen.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import IO

from amux.faces.cli.output import Output

_DEFAULT = "less -R"
_VARIABLES = ("AMUX_PAGER", "PAGER")
_LESS = {"LESS": "FRX", "LV": "-c"}


def page(lines: Iterable[str], output: Output, *, rows: int) -> None:
    """Write the lines to the terminal; more than a screen of `rows` goes through the pager."""
    left = iter(lines)
    head: list[str] = []
    for line in left:
        head.append(line)
        if len(head) >= rows:
            break
    argv: Sequence[str] = pager_command(output) if len(head) >= rows else ()
    everything = chain(head, left)
    if not argv or not _write_to_pager(argv, everything, output):
        for line in everything:
            sys.stdout.write(line)


def pager_command(output: Output) -> Sequence[str]:
    """Return the words of the pager's command; none if the output is not to be paged."""
    import shlex

    environment = os.environ  # noqa: TID251 - a face asks the process
    chosen = next((name for name in _VARIABLES if name in environment), None)
    if chosen is None:
        return () if environment.get("TERM", "dumb") == "dumb" else shlex.split(_DEFAULT)
    try:
        words = shlex.split(environment[chosen])
    except ValueError as error:
        output.warning(f"`{chosen}` is not a command: {error}")
        return ()
    return () if words == ["cat"] else words


def _write_to_pager(argv: Sequence[str], lines: Iterable[str], output: Output) -> bool:
    """Return whether the pager was started; whether it read everything does not matter."""
    import subprocess

    sys.stdout.flush()
    environment = os.environ  # noqa: TID251 - a face asks the process
    try:
        process = subprocess.Popen(  # noqa: S603 - the user's own command, without a shell
            argv,
            stdin=subprocess.PIPE,
            bufsize=1,  # the first screen does not wait for the second
            env={**_LESS, **environment},
            encoding=sys.stdout.encoding,
            errors="replace",
        )
    except OSError as error:
        if list(argv) != _DEFAULT.split():
            output.warning(f"cannot start the pager `{argv[0]}`: {error.strerror}")
        return False
    with _interrupts_ignored(), process:  # the process is awaited before interrupts return
        if process.stdin is not None:
            _feed(process.stdin, lines)
    return True


def _feed(pipe: IO[str], lines: Iterable[str]) -> None:
    """Write the lines; a pager that was left early closes the pipe, which is no error."""
    try:
        for line in lines:
            pipe.write(line)
    except BrokenPipeError:
        pass
    finally:
        with suppress(BrokenPipeError):
            pipe.close()


@contextmanager
def _interrupts_ignored() -> Generator[None]:
    """Leave Ctrl-C to the pager, which keeps the terminal until it is left."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
