"""`amux star` and `amux unstar`: add or remove the star of a session."""

from __future__ import annotations

from amux.faces.cli.context import Context
from amux.faces.cli.filters import add_examples, add_session
from amux.faces.cli.parser import CommandParser


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    add_session(parser)
    add_examples(parser, f"{parser.prog} 29c5cee3", "amux list --starred")


def run(context: Context) -> None:
    """Add the star."""
    _change_star(context, give=True)


configure_unstar = configure


def run_unstar(context: Context) -> None:
    """Remove the star."""
    _change_star(context, give=False)


def _change_star(context: Context, *, give: bool) -> None:
    """Add or remove the star and confirm it."""
    ref, agent = context.address(context.args.session)
    manager = context.client.annotations
    change = manager.star if give else manager.unstar
    found = change(ref, agent=agent)
    context.confirm(found, f"{found.unified_id}: {'starred' if found.starred else 'not starred'}")
    context.report_problems(manager.problems())
