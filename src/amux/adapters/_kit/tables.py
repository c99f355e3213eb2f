"""Tables of a foreign database: which columns there are, rows as mappings.

Versions of an agent differ in their columns, so nothing is selected that was not seen first. Names
of tables and columns come from constants and from the schema and are quoted; values are bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:  # adapters are imported by programs that never open a database
    import sqlite3

Row = dict[str, Any]


class Chosen(NamedTuple):
    """The ids a statement is confined to, as one bound value however many they are."""

    ids: tuple[str, ...]

    @property
    def sql(self) -> str:
        """What a column is asked to be IN."""
        return "(?)" if len(self.ids) == 1 else "(SELECT value FROM json_each(?))"

    @property
    def values(self) -> tuple[str, ...]:
        """What is bound to it."""
        return self.ids if len(self.ids) == 1 else (msgspec.json.encode(self.ids).decode(),)


def can_choose(id: str) -> bool:
    """Whether a statement finds what has this id: some bytes do not survive being read."""
    return "\0" not in id and "\N{REPLACEMENT CHARACTER}" not in id


def columns(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
    """The columns of a table or view; none when there is no such table."""
    found = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
    return tuple(str(name) for (name,) in found)


def quoted(name: str) -> str:
    """An identifier that no schema can break out of."""
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
    """Rows of a table as mappings of the named columns."""
    selected = ", ".join(quoted(name) for name in names)
    statement = f"SELECT {selected} FROM {quoted(table)} {where} {order}"  # noqa: S608 - quoted names, bound values
    for row in connection.execute(statement, tuple(values)):
        yield dict(zip(names, row, strict=True))
