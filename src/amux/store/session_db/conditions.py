"""Conditions of a query: clauses with their values, which are never part of the SQL text."""

from __future__ import annotations

from collections.abc import Collection

from amux.store.session_db.rows import encode_text


class Conditions:
    """A list of SQL clauses that must all hold, with the values of their parameters in order."""

    def __init__(self) -> None:
        self._clauses: list[str] = []
        self.values: list[object] = []

    @property
    def sql(self) -> str:
        """The clauses joined by AND; a clause that always holds if there are none."""
        return " AND ".join(self._clauses) or "1"

    def add(self, clause: str, *values: object) -> None:
        """Add a clause with the values of its parameters."""
        self._clauses.append(f"({clause})")
        self.values += [encode_text(each) if isinstance(each, str) else each for each in values]

    def add_if(self, clause: str, value: object) -> None:
        """Add a clause of one parameter, unless its value is None."""
        if value is not None:
            self.add(clause, value)

    def add_one_of(self, column: str, values: Collection[str] | None) -> None:
        """Require one of several values; no row has one of none. None requires nothing."""
        if values is not None:
            self.add(f"{column} IN ({', '.join('?' * len(values))})", *values)

    def add_none_of(self, column: str, values: Collection[str] | None) -> None:
        """Exclude several values. None excludes nothing."""
        if values:
            self.add(f"{column} NOT IN ({', '.join('?' * len(values))})", *values)

    def add_folder(self, column: str, folder: str | None) -> None:
        """Require a directory or one below it. None requires nothing."""
        if folder is not None:
            base = folder.rstrip("/\\")
            self.add(
                f"{column} = ? OR substr({column}, 1, ?) IN (?, ?)",
                *(base, len(base) + 1, f"{base}/", f"{base}\\"),
            )
