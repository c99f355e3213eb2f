"""`amux config show`: every setting with its origin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from amux.faces.cli.context import Context
from amux.faces.cli.output import Column
from amux.faces.cli.parser import CommandParser

if TYPE_CHECKING:
    from amux.config import Config

_COLUMNS = (Column("Setting", style="cyan"), Column("Value"), Column("From", grows=True))
_ABOUT_SETTINGS = ("origins", "warnings")  # fields that are no settings


def configure(parser: CommandParser) -> None:
    """Add nothing: the command has no arguments."""
    del parser


def run(context: Context) -> None:
    """Show the merged settings."""
    output, settings = context.output, list(_settings(context.client.config))
    if context.is_json:
        output.json(
            [{"key": key, "value": value, "origin": origin} for key, value, origin in settings]
        )
        return
    rows = [(key, _text(value), origin) for key, value, origin in settings]
    if output.is_terminal:
        output.table(_COLUMNS, rows)
    else:
        output.rows(rows)


def _settings(config: Config) -> Iterator[tuple[str, Any, str]]:
    import msgspec

    plain = cast("dict[str, Any]", msgspec.to_builtins(config, enc_hook=str))
    for name in _ABOUT_SETTINGS:
        plain.pop(name)
    for key, value in _leaves(plain, ""):
        yield key, value, config.origin(key)


def _leaves(value: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            yield from _leaves(cast("Mapping[str, Any]", inner), f"{path}{key}.")
        else:
            yield f"{path}{key}", inner


def _text(value: object) -> str:
    if value is None or value in ({}, [], ()):
        return "-"
    if isinstance(value, list | tuple):
        return ", ".join(str(each) for each in cast("list[object]", value))
    return str(value)
