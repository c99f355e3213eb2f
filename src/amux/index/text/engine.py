"""Full-text search over messages: returns the documents that may contain a term.

There is one document per message, in two FTS5 tables without content: `spoken` (messages and
thoughts) and `tools` (tool names, input and output). The id of a document is
`unit << 20 | ordinal`. The caller chooses the number of a text unit, and a new one when
a source was rewritten: such a table cannot delete rows, so dropped units are recorded and left out
of results.

Texts that are too long for one document are added in windows with ordinals from `UNPLACED_TEXT` on:
the unit contains them, but their message is unknown.

Results include every document with the term, and name those that may not contain it. All errors of
SQLite are raised as errors of `index.errors`.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from amux.index.text.plan import Plan, TermKind, plan_term
from amux.index.text.tables import (
    create_schema,
    merge_portion,
    set_option,
    snapshot,
    sqlite_errors,
    transaction,
)
from amux.index.text.vocabulary import TEXT_TABLES, TextTable, Vocabulary
from amux.model.texts import TextDoc
from amux.model.words import JOINT, token_text

Table = TextTable
TABLES: Final = TEXT_TABLES
UNIT_SHIFT: Final = 20
LAST_ORDINAL: Final = (1 << UNIT_SHIFT) - 1
UNPLACED_TEXT: Final = LAST_ORDINAL - (1 << 16) + 1
"""Ordinals from here on stand for a text of the unit, not for a message."""

MAX_DEAD: Final = 0.2
"""The share of documents in dropped units above which the index is built anew."""

_FEW_CLAUSES: Final = 20  # faster than merging two results
_CLAUSES_PER_QUERY: Final = 64  # FTS5 checks every alternative for every row it finds
_COMBINED_CLAUSES: Final = 256  # with other conditions it finds fewer rows
_BULK_CACHE_KIB: Final = 32 << 10
_NO_CRISIS: Final = 1000  # segments of a bulk load, which are merged once, at its end
_MAX_PLANNED: Final = 10_000  # clauses, of a hundred bytes each
_LOCK_WAIT_S: Final = 5.0
_NUMBERS: Final = msgspec.json.Decoder(list[int])
_GAP: Final = f"\n{JOINT}\n"  # a token of its own, which is in no phrase


class Documents(NamedTuple):
    """The ids of documents with a term, in order and unique; `ids` None means that any may match.

    Those in `unsure` may not contain it. All documents of a unit with unplaced texts are one, with
    the ordinal `UNPLACED_TEXT`, and unsure as soon as terms are combined.
    """

    ids: list[int] | None
    unsure: set[int]

    @property
    def exact(self) -> bool:
        """Whether exactly these documents match."""
        return self.ids is not None and not self.unsure


class _TableState:
    """Cached values that are valid until any process writes to the tables."""

    __slots__ = ("_planned", "dead", "plans", "unplaced", "version")

    def __init__(
        self, version: tuple[int, int], dead: frozenset[int], unplaced: frozenset[int]
    ) -> None:
        self.version = version
        self.dead = dead  # dropped units
        self.unplaced = unplaced  # units with unplaced texts
        self.plans: dict[tuple[Table, TermKind, str], Plan] = {}
        self._planned = 0

    def add_plan(self, term: tuple[Table, TermKind, str], plan: Plan) -> None:
        """Cache the plan of a term: words occur again in other queries."""
        size = 1 + len(plan.clauses or ())
        if self._planned + size > _MAX_PLANNED:
            self.plans.clear()
            self._planned = 0
        if size < _MAX_PLANNED:
            self.plans[term] = plan
            self._planned += size


class TextIndex:
    """The full-text tables of one database; see the module.

    The connection belongs to the caller and is in autocommit mode. Every change is one transaction,
    or part of the caller's if one is open. The caller ensures that one thread uses it at a time.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._in_bulk = False
        self._cache_size = 0
        with sqlite_errors():
            create_schema(connection)
        self._vocabulary = Vocabulary(connection)
        self._state: _TableState | None = None

    @classmethod
    def open(cls, path: Path) -> TextIndex:
        """Open the index in a database file of its own, which is created if necessary."""
        with sqlite_errors():
            connection = sqlite3.connect(
                path, timeout=_LOCK_WAIT_S, isolation_level=None, check_same_thread=False
            )
            try:
                if connection.execute("PRAGMA page_count").fetchone() == (0,):
                    connection.execute("PRAGMA page_size = 8192")
                    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                return cls(connection)
            except BaseException:
                connection.close()
                raise

    def close(self) -> None:
        """Close the connection; an open transaction is rolled back."""
        with sqlite_errors():
            self.connection.close()

    def begin_bulk(self) -> None:
        """Begin a bulk load; other processes see it after `save` or `finish_bulk`.

        It is fast if units come in ascending order.
        """
        with sqlite_errors():
            self._cache_size = int(self.connection.execute("PRAGMA cache_size").fetchone()[0])
            self.connection.execute(f"PRAGMA cache_size = -{_BULK_CACHE_KIB}")
            self._begin()
            self._vocabulary.mark_stale()
            self._set_merging(automerge=0, crisismerge=_NO_CRISIS)
        self._in_bulk = True

    def save(self) -> None:
        """Commit what a bulk load has added so far."""
        with sqlite_errors():
            self.connection.execute("COMMIT")
            self._begin()

    @property
    def is_unfinished(self) -> bool:
        """Whether a bulk load was interrupted: results are right, but slow."""
        with sqlite_errors():
            return self._vocabulary.is_stale

    def leave_bulk(self, *, keep: bool) -> None:
        """Abort a bulk load; `keep` what was added since the last `save`, or discard it."""
        self._in_bulk = False
        with sqlite_errors():
            if self.connection.in_transaction:
                self.connection.execute("COMMIT" if keep else "ROLLBACK")
            self.connection.execute(f"PRAGMA cache_size = {self._cache_size}")

    def finish_bulk(self) -> None:
        """Merge what was added into one segment, store its words and commit."""
        self._in_bulk = False
        self.save()  # merging leaves out what is still in memory
        with sqlite_errors():
            self._set_merging(automerge=4, crisismerge=16)  # the defaults of FTS5
            for table in TABLES:
                is_first = True
                while merge_portion(self.connection, table, begin=is_first):
                    is_first = False
                    self.save()
            self._vocabulary.renew()
            self.connection.execute("COMMIT")
            self.connection.executescript("PRAGMA incremental_vacuum")  # a script is run to its end
            self.connection.execute(f"PRAGMA cache_size = {self._cache_size}")

    def add(self, unit: int, docs: Iterable[TextDoc]) -> int:
        """Add messages to a unit and return how many; one that has grown can be added again."""
        docs = list(docs)
        base = unit << UNIT_SHIFT
        highest = max((doc.ordinal for doc in docs), default=0)
        with sqlite_errors(), transaction(self.connection):
            self._insert("spoken", base, ((doc.ordinal, doc.spoken) for doc in docs))
            self._insert("tools", base, ((doc.ordinal, doc.tools) for doc in docs))
            self.connection.execute(
                "INSERT INTO text_units VALUES (?, ?, ?, 0) ON CONFLICT (unit) DO UPDATE"
                " SET docs = docs + excluded.docs, unplaced = max(unplaced, excluded.unplaced)",
                (unit, len(docs), highest >= UNPLACED_TEXT),
            )
        return len(docs)

    def drop(self, unit: int) -> None:
        """Remove a unit for good: its number must not be used again."""
        with sqlite_errors(), transaction(self.connection):
            self.connection.execute(
                "INSERT INTO text_units VALUES (?, 0, 0, 1) ON CONFLICT (unit)"
                " DO UPDATE SET dead = 1",
                (unit,),
            )

    def document_counts(self) -> tuple[float, float]:
        """Return the number of documents in dropped units, and of all documents."""
        with sqlite_errors():
            row = self.connection.execute(
                "SELECT total(docs * dead), total(docs) FROM text_units"
            ).fetchone()
        return float(row[0]), float(row[1])

    def units(self) -> dict[int, int]:
        """Return the number of messages of every unit that is not dropped."""
        with sqlite_errors():
            return dict(self.connection.execute("SELECT unit, docs FROM text_units WHERE NOT dead"))

    def documents(
        self, kind: TermKind, folded: str, *, tables: Collection[Table] = TABLES
    ) -> Documents:
        """Return the documents with a term, to be combined with those of other terms."""
        found: list[list[int]] = []
        exact = True
        with sqlite_errors(), snapshot(self.connection):
            state = self._table_state()
            for table in tables:
                plan = self._plan(state, table, kind, folded)
                if plan.clauses is None:
                    return Documents(None, set())
                exact = exact and plan.exact
                found.extend(self._matching(table, plan.clauses))
        dead, unplaced = state.dead, state.unplaced
        ids = in_order(found)
        if dead:
            ids = [key for key in ids if key >> UNIT_SHIFT not in dead]
        unsure = set[int]() if exact else set(ids)
        if unplaced:
            ids = sorted({_merged(key, unplaced) for key in ids})
            unsure = {key for key in ids if not exact or key >> UNIT_SHIFT in unplaced}
        return Documents(ids, unsure)

    def documents_with_all(
        self, terms: Iterable[tuple[TermKind, str]], *, table: Table
    ) -> list[int] | None:
        """Return the documents of a table that contain several terms, in order.

        None if that is not certain: the caller then combines the documents of each term.
        """
        with sqlite_errors(), snapshot(self.connection):
            state = self._table_state()
            if state.unplaced:
                return None
            conditions: list[str] = []
            for kind, folded in terms:
                clauses, exact = self._plan(state, table, kind, folded)
                if clauses is None or not exact or len(clauses) > _COMBINED_CLAUSES:
                    return None
                if not clauses:
                    return []
                conditions.append(f"({' OR '.join(clauses)})")
            found = in_order([*self._matching(table, (" AND ".join(conditions),))])
        dead = state.dead
        return [key for key in found if key >> UNIT_SHIFT not in dead] if dead else found

    def vocabulary(self, *, tables: Collection[Table] = TABLES) -> Iterator[tuple[str, int]]:
        """Yield every whole word and its number of messages; a word may come once per table."""
        with sqlite_errors():
            for table in tables:
                yield from self._vocabulary.frequencies(table)

    def _plan(self, state: _TableState, table: Table, kind: TermKind, folded: str) -> Plan:
        plan = state.plans.get((table, kind, folded))
        if plan is None:
            words = self._vocabulary.words(table)
            plan = plan_term(kind, folded, words)
            state.add_plan((table, kind, folded), plan)
        return plan

    def _matching(self, table: Table, clauses: tuple[str, ...]) -> Iterator[list[int]]:
        """Yield the documents with any of the clauses, in lists of ascending ids."""
        for some in _portions(clauses):
            # One row with all ids: a row for each would take three times as long.
            (found,) = self.connection.execute(
                f"SELECT group_concat(rowid) FROM {table} WHERE {table} MATCH ?",  # noqa: S608 - constants
                (" OR ".join(some),),
            ).fetchone()
            if found is not None:
                yield _NUMBERS.decode(f"[{found}]")

    def _table_state(self) -> _TableState:
        """Return the cached values for the tables in the open transaction."""
        (foreign,) = self.connection.execute("PRAGMA data_version").fetchone()
        version = foreign, self.connection.total_changes
        if self._state is None or self._state.version != version:
            dead, unplaced = (
                frozenset(unit for (unit,) in self.connection.execute(query))
                for query in (
                    "SELECT unit FROM text_units WHERE dead",
                    "SELECT unit FROM text_units WHERE unplaced",
                )
            )
            self._state = _TableState(version, dead, unplaced)
        return self._state

    def _insert(self, table: Table, base: int, texts: Iterable[tuple[int, Sequence[str]]]) -> None:
        """Add the texts of messages one by one: those of a large session exist only once."""
        rows: Iterable[tuple[int, str]] = (
            (base | min(ordinal, LAST_ORDINAL), _GAP.join(map(token_text, parts)))
            for ordinal, parts in texts
            if parts
        )
        if not self._in_bulk:
            rows = list(rows)
            self._vocabulary.note(table, (text for _, text in rows))
        self.connection.executemany(f"INSERT INTO {table} (rowid, body) VALUES (?, ?)", rows)  # noqa: S608 - constants

    def _set_merging(self, *, automerge: int, crisismerge: int) -> None:
        """Set from how many segments on FTS5 merges them while texts are added."""
        for table in TABLES:
            set_option(self.connection, table, "automerge", automerge)
            set_option(self.connection, table, "crisismerge", crisismerge)

    def _begin(self) -> None:
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN IMMEDIATE")


def in_order(runs: Sequence[list[int]]) -> list[int]:
    """Return the numbers in any of some ascending lists, in order and unique."""
    longest = max(runs, key=len, default=list[int]())
    if len(runs) <= 1:
        return longest
    others = set(chain.from_iterable(run for run in runs if run is not longest))
    return sorted([*longest, *others.difference(longest)])


def units_of(ids: Iterable[int]) -> Counter[int]:
    """Return how many of some documents each unit has."""
    return Counter([key >> UNIT_SHIFT for key in ids])


def _portions(clauses: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield clauses in portions, the first alone: it matches most rows, and each row checks all."""
    first = 1 if len(clauses) > _FEW_CLAUSES else 0
    if first:
        yield clauses[:first]
    for start in range(first, len(clauses), _CLAUSES_PER_QUERY):
        yield clauses[start : start + _CLAUSES_PER_QUERY]


def _merged(key: int, unplaced: frozenset[int]) -> int:
    unit = key >> UNIT_SHIFT
    return unit << UNIT_SHIFT | UNPLACED_TEXT if unit in unplaced else key
