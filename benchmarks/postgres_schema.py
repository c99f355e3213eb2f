"""A schema of a PostgreSQL server for one store of a measurement, and the bytes that it takes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psycopg

_SIZE = (
    "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c "
    "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND n.nspname = %s"
)


class Schema(NamedTuple):
    """A schema: `url` is that of the server."""

    url: str
    name: str

    @property
    def ours(self) -> str:
        """The address of a store of ours in the schema."""
        return f"{self.url}{self._mark}schema={self.name}"

    @property
    def theirs(self) -> str:
        """The URL with which the store of a framework works in the schema."""
        return f"{self.url}{self._mark}options=-csearch_path%3D{self.name}"

    @property
    def sqlalchemy(self) -> str:
        """The URL for a framework that uses SQLAlchemy."""
        return self.theirs.replace("://", "+psycopg://", 1)

    @property
    def _mark(self) -> str:
        return "&" if "?" in self.url else "?"

    def size(self) -> int:
        """Return the bytes of all tables with their indexes."""
        with psycopg.connect(self.url) as connection:
            row = connection.execute(_SIZE, (self.name,)).fetchone()
        return 0 if row is None else int(row[0])


@contextmanager
def new_schema(url: str) -> Iterator[Schema]:
    """Create a schema and drop it at the end."""
    name = f"bench_{os.urandom(4).hex()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
        yield Schema(url, name)
        connection.execute(f"DROP SCHEMA {name} CASCADE".encode())
