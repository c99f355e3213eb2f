"""`amux sessions fork`: a new session of the agent that begins with an old one's history."""

from __future__ import annotations

from amux.faces.cli.commands.resume import configure, go_on
from amux.faces.cli.context import Context

__all__ = ["configure", "run"]


def run(context: Context) -> None:
    """Fork: the original stays as it is."""
    go_on(context, fork=True)
