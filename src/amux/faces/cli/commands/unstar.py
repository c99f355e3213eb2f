"""`amux unstar`: take the star from a session."""

from __future__ import annotations

from amux.faces.cli.commands.star import change_star, configure
from amux.faces.cli.context import Context

__all__ = ["configure", "run"]


def run(context: Context) -> None:
    """Take the star back."""
    change_star(context, give=False)
