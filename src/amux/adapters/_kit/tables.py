"""Tables of a foreign database: which columns there are, rows as mappings.

Versions of an agent differ in their columns, so nothing is selected that was not seen first. Names
of tables and columns come from constants and from the schema and are quoted; values are bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # adapters are imported by programs that never open a database
    import sqlite3

Row = dict[str, Any]


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
