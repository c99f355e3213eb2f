"""The command line of the agent."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import amux
from entry_log_agent.repl import Repl, list_sessions


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent and return its exit code."""
    parser = argparse.ArgumentParser(prog="entry-log-agent", allow_abbrev=False)
    parser.add_argument("-session", metavar="ID", help="resume the session whose id begins with ID")
    parser.add_argument("-sessions", action="store_true", help="list recent sessions")
    parser.add_argument("-prompt", metavar="TEXT", help="answer one prompt and end")
    parser.add_argument("-dir", metavar="DIR", type=Path, help="the directory of the sessions")
    given = parser.parse_args(argv)
    folder: Path = given.dir or amux.EntryLog.sessions_dir(
        "entry-log-agent", amux.Host.from_process()
    )
    try:
        return run(given, folder)
    except amux.AmuxError as error:
        sys.stderr.write(f"error: {error.message}\nhint: {error.hint}\n")
        return error.exit_code


def run(given: argparse.Namespace, folder: Path) -> int:
    """List sessions, or create or resume one and talk."""
    if given.sessions:
        list_sessions(folder, sys.stdout)
        return 0
    if given.session is not None:
        log = amux.EntryLog.load(folder, given.session)
    else:
        log = amux.EntryLog.create(folder, os.getcwd())  # noqa: PTH109 - a text
    repl = Repl(log, folder, sys.stdout)
    if given.prompt is not None:
        repl.prompt(given.prompt)
    else:
        repl.run(sys.stdin)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
