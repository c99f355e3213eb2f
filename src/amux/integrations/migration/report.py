"""`MigrationReport`: what an import from the database of a framework found and did."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import msgspec

from amux.errors import ConflictError, StoreError, ValidationError
from amux.model.problems import Problem


class MigrationReport(msgspec.Struct, kw_only=True):
    """The sessions of one framework in one database.

    `imported` are the ids of the new threads, `skipped` the keys of sessions that the store has
    already. `records` counts the items, events or checkpoints that were stored.
    """

    framework: str
    imported: list[str] = []
    skipped: list[str] = []
    records: int = 0
    problems: list[Problem] = []

    def problem(self, message: str) -> None:
        """Note data that was not imported."""
        self.problems.append(Problem(code="bad-record", message=message))

    @contextmanager
    def storing(self, name: str) -> Generator[None]:
        """Note a session that could not be stored, so that the import goes on with the next one.

        A session whose key the store has by now was skipped.
        """
        try:
            yield
        except ConflictError:
            self.skipped.append(name)
        except (StoreError, ValidationError) as error:
            self.problem(f"`{name}` cannot be stored: {error}")
