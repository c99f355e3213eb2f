"""Reads tables of a foreign database: their columns, and their rows as mappings.

The columns differ between versions of an agent, so a statement selects only columns that exist.
Names of tables and columns come from constants and from the schema and are quoted; values are
bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:  # adapters are imported by programs that never open a database
    import sqlite3

Row = dict[str, Any]


class SelectedIds(NamedTuple):
    """The ids a statement is restricted to, as one bound value regardless of their number."""

    ids: tuple[str, ...]

    @property
    def sql(self) -> str:
        """The right side of an IN expression."""
        return "(?)" if len(self.ids) == 1 else "(SELECT value FROM json_each(?))"

    @property
    def values(self) -> tuple[str, ...]:
        """The values to bind to `sql`."""
        return self.ids if len(self.ids) == 1 else (msgspec.json.encode(self.ids).decode(),)


def can_choose(id: str) -> bool:
    """Return whether a statement can look up an id: some bytes do not survive decoding."""
    return "\0" not in id and "\N{REPLACEMENT CHARACTER}" not in id


def columns(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
    """Return the columns of a table or view; empty if it does not exist."""
    found = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
    return tuple(str(name) for (name,) in found)


def quoted(name: str) -> str:
    """Return an identifier quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def rows(
    connection: sqlite3.Connection,
    table: str,
    names: Sequence[str],
    *,
    where: str = "",
    order: str = "",
    values: Sequence[Any] = (),
) -> Iterator[Row]:
    """Yield the rows of a table as mappings of the named columns."""
    selected = ", ".join(quoted(name) for name in names)
    statement = f"SELECT {selected} FROM {quoted(table)} {where} {order}"  # noqa: S608 - quoted names, bound values
    for row in connection.execute(statement, tuple(values)):
        yield dict(zip(names, row, strict=True))
