"""`amux hooks list`: the hooks that run for sessions of the store, in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amux.faces.cli.context import Context
from amux.faces.cli.filters import add_examples
from amux.faces.cli.output import Column
from amux.faces.cli.parser import CommandParser

if TYPE_CHECKING:
    from amux.lifecycle.hooks import HookInfo

_COLUMNS = (
    Column("Hook", style="cyan"),
    Column("From"),
    Column("Trust"),
    Column("Priority", is_number=True),
    Column("Enabled"),
    Column("Runs at", grows=True),
)


def configure(parser: CommandParser) -> None:
    """Add the examples: the command has no arguments."""
    add_examples(parser, "amux hooks list", "amux hooks list --json")


def run(context: Context) -> None:
    """Show the built-in hooks, those of `hooks.json` and those of installed packages."""
    lifecycle, output = context.client.lifecycle, context.output
    for warning in lifecycle.load():
        output.warning(warning)
    hooks = lifecycle.hooks
    if context.is_json:
        output.json(
            [
                {
                    "name": hook.name,
                    "origin": hook.origin,
                    "trust": hook.trust,
                    "priority": hook.priority,
                    "enabled": hook.enabled,
                    "appliesTo": _sources(hook),
                }
                for hook in hooks
            ]
        )
        return
    rows = [
        (
            hook.name,
            hook.origin,
            hook.trust,
            str(hook.priority),
            "yes" if hook.enabled else "no",
            ", ".join(_sources(hook)),
        )
        for hook in hooks
    ]
    if output.is_terminal:
        output.table(_COLUMNS, rows)
    else:
        output.rows(rows)


def _sources(hook: HookInfo) -> list[str]:
    return sorted(source.value for source in hook.applies_to)
