"""Full-text search over messages: which units (one session of one source) may hold a term.

One document per message. Two FTS5 tables without content: `spoken` (what people and models said,
thought and called things; with positions) and `tools` (tool names, input and output; without). A
document's id is `unit << 20 | ordinal`, where the caller gives the unit and renews it when a source
was rewritten: such a table cannot delete, so dropped units are remembered and left out.

Texts too long to be held are added in windows under ordinals from `LOOSE` on: what such a unit
holds is known, but not in which message.

Answers hold everything that has the term, and say of what they are not sure. Of SQLite nothing gets
out but the errors of `index.errors`.
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
"""From here on an ordinal names no message, only a text of the unit."""

_TOO_MUCH_DEAD: Final = 0.2
_FEW_CLAUSES: Final = 20  # so many take less time than putting two answers together
_CLAUSES_AT_ONCE: Final = 64  # FTS5 looks at every alternative for every row it finds
_CLAUSES_TOGETHER: Final = 256  # with other conditions it finds fewer rows
_BULK_CACHE_KIB: Final = 32 << 10
_MOST_PLANNED: Final = 10_000  # clauses, of a hundred bytes each
_LOCK_WAIT_S: Final = 5.0
_NUMBERS: Final = msgspec.json.Decoder(list[int])
_GAP: Final = f"\n{JOINT}\n"  # a token of its own, which no phrase asks for


class Documents(NamedTuple):
    """Documents with a term; `ids` None: any may be.

    They are in order, each once. Those of `unsure` may not hold it. All documents of a unit with
    loose texts are one, of ordinal `LOOSE`, and in doubt as soon as terms are combined.
    """

    ids: list[int] | None
    unsure: set[int]

    @property
    def exact(self) -> bool:
        """Whether it is these and no others."""
        return self.ids is not None and not self.unsure


class PreparedDoc(NamedTuple):
    """The texts of one message in the words that are looked for; always valid Unicode."""

    ordinal: int
    spoken: str
    tools: str


def prepare(docs: Iterable[TextDoc]) -> list[PreparedDoc]:
    """Documents as they can be added: an eighth of the work, which anybody may do."""
    return [
        PreparedDoc(ordinal, _GAP.join(map(token_text, said)), token_text(done))
        for ordinal, said, done, _ in docs
    ]


class _Known:
    """What was found out about the tables: it holds until anybody writes to them."""

    __slots__ = ("_planned", "dead", "loose", "plans", "version")

    def __init__(
        self, version: tuple[int, int], dead: frozenset[int], loose: frozenset[int]
    ) -> None:
        self.version = version
        self.dead = dead  # units that were dropped
        self.loose = loose  # units with loose texts
        self.plans: dict[tuple[Table, TermKind, str], Plan] = {}
        self._planned = 0

    def keep(self, term: tuple[Table, TermKind, str], plan: Plan) -> None:
        """Remember how a term is found: words come again in other queries."""
        size = 1 + len(plan.clauses or ())
        if self._planned + size > _MOST_PLANNED:
            self.plans.clear()
            self._planned = 0
        if size < _MOST_PLANNED:
            self.plans[term] = plan
            self._planned += size


class TextIndex:
    """The full-text tables of one database; see the module.

    The connection is the caller's, in autocommit mode. Every change is one transaction, or part of
    the caller's if one is open. Any thread may ask, one at a time: the caller sees to that.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._in_bulk = False
        self._cache_size = 0
        with sqlite_errors():
            create_schema(connection)
        self._vocabulary = Vocabulary(connection)
        self._known: _Known | None = None

    @classmethod
    def open(cls, path: Path) -> TextIndex:
        """The index in a database file of its own, created if there is none."""
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
            except sqlite3.DatabaseError:
                connection.close()
                raise
        try:
            return cls(connection)
        except BaseException:
            connection.close()
            raise

    @property
    def connection(self) -> sqlite3.Connection:
        """The database, for what is kept beside the texts in it."""
        return self._db

    def close(self) -> None:
        """Close the connection; what was not finished is rolled back."""
        with sqlite_errors():
            self._db.close()

    def begin_bulk(self) -> None:
        """Begin to add much: nobody else sees it before `save` or `finish_bulk`.

        Fast if units come in ascending order.
        """
        with sqlite_errors():
            self._cache_size = int(self._db.execute("PRAGMA cache_size").fetchone()[0])
            self._db.execute(f"PRAGMA cache_size = -{_BULK_CACHE_KIB}")
            self._begin()
            self._vocabulary.mark_stale()
            for table in TABLES:
                set_option(self._db, table, "automerge", 0)
        self._in_bulk = True

    def save(self) -> None:
        """Keep what a bulk load has added so far, should it be interrupted later."""
        with sqlite_errors():
            self._db.execute("COMMIT")
            self._begin()

    @property
    def is_unfinished(self) -> bool:
        """Whether a bulk load was left before its end: answers are right, but take long."""
        with sqlite_errors():
            return self._vocabulary.is_stale

    def leave_bulk(self, *, keep: bool) -> None:
        """End a bulk load before its end, with what it has added, or only with what was saved."""
        self._in_bulk = False
        with sqlite_errors():
            if self._db.in_transaction:
                self._db.execute("COMMIT" if keep else "ROLLBACK")
            self._db.execute(f"PRAGMA cache_size = {self._cache_size}")

    def finish_bulk(self) -> None:
        """Merge what was added into one piece, note its words and commit."""
        self._in_bulk = False
        self.save()  # what is still in memory takes no part in merging
        with sqlite_errors():
            for table in TABLES:
                set_option(self._db, table, "automerge", 4)
                is_first = True
                while merge_portion(self._db, table, begin=is_first):
                    is_first = False
                    self.save()
            self._vocabulary.renew()
            self._db.execute("COMMIT")
            self._db.executescript("PRAGMA incremental_vacuum")  # a script is run to its end
            self._db.execute(f"PRAGMA cache_size = {self._cache_size}")

    def add(self, unit: int, docs: Iterable[TextDoc]) -> int:
        """Add messages to a unit; how many. One may come again if it has grown since."""
        return self.add_prepared(unit, prepare(docs))

    def add_prepared(self, unit: int, docs: Iterable[PreparedDoc]) -> int:
        """The same with messages that somebody has prepared."""
        spoken: list[tuple[int, str]] = []
        tools: list[tuple[int, str]] = []
        base, count, highest = unit << UNIT_SHIFT, 0, 0
        for ordinal, said, done in docs:
            key = base | min(ordinal, LAST_ORDINAL)
            if said:
                spoken.append((key, said))
            if done:
                tools.append((key, done))
            count, highest = count + 1, max(highest, ordinal)
        with sqlite_errors(), transaction(self._db):
            self._insert("spoken", spoken)
            self._insert("tools", tools)
            self._db.execute(
                "INSERT INTO text_units VALUES (?, ?, ?, 0) ON CONFLICT (unit) DO UPDATE"
                " SET docs = docs + excluded.docs, loose = max(loose, excluded.loose)",
                (unit, count, highest >= UNPLACED_TEXT),
            )
        return count

    def drop(self, unit: int) -> None:
        """Forget a unit for good: its number must not be used again."""
        with sqlite_errors(), transaction(self._db):
            self._db.execute(
                "INSERT INTO text_units VALUES (?, 0, 0, 1) ON CONFLICT (unit)"
                " DO UPDATE SET dead = 1",
                (unit,),
            )

    @property
    def needs_rebuild(self) -> bool:
        """Whether more than a fifth is dead weight."""
        with sqlite_errors():
            row = self._db.execute(
                "SELECT total(docs * dead), total(docs) FROM text_units"
            ).fetchone()
        return float(row[0]) > _TOO_MUCH_DEAD * float(row[1])

    def units(self) -> dict[int, int]:
        """Every unit that is not dropped, and how many messages it has."""
        with sqlite_errors():
            return dict(self._db.execute("SELECT unit, docs FROM text_units WHERE NOT dead"))

    def documents(
        self, kind: TermKind, folded: str, *, tables: Collection[Table] = TABLES
    ) -> Documents:
        """The documents that hold a term, to be combined with those of other terms."""
        sure: list[list[int]] = []
        doubted: list[list[int]] = []
        with sqlite_errors(), snapshot(self._db):
            known = self._known_by_now()
            for table in tables:
                plan = self._plan(known, table, kind, folded)
                if plan.clauses is None:
                    return Documents(None, set())
                (sure if plan.exact else doubted).extend(self._matching(table, plan.clauses))
        dead, loose = known.dead, known.loose
        ids = in_order([*sure, *doubted])
        unsure = set[int]().union(*doubted).difference(*sure) if doubted else set[int]()
        if dead:
            ids = [key for key in ids if key >> UNIT_SHIFT not in dead]
            unsure.intersection_update(ids)
        if loose:
            ids = sorted({_merged(key, loose) for key in ids})
            unsure = {_merged(key, loose) for key in unsure}
            unsure.update(key for key in ids if key >> UNIT_SHIFT in loose)
        return Documents(ids, unsure)

    def documents_with_all(
        self, terms: Iterable[tuple[TermKind, str]], *, table: Table
    ) -> list[int] | None:
        """The documents of a table that hold several terms, in order.

        None where it is not sure of that, and the terms have to be combined by whoever asks.
        """
        with sqlite_errors(), snapshot(self._db):
            known = self._known_by_now()
            if known.loose:
                return None
            conditions: list[str] = []
            for kind, folded in terms:
                clauses, exact = self._plan(known, table, kind, folded)
                if clauses is None or not exact or len(clauses) > _CLAUSES_TOGETHER:
                    return None
                if not clauses:
                    return []
                conditions.append(f"({' OR '.join(clauses)})")
            found = in_order([*self._matching(table, (" AND ".join(conditions),))])
        dead = known.dead
        return [key for key in found if key >> UNIT_SHIFT not in dead] if dead else found

    def vocabulary(self, *, tables: Collection[Table] = TABLES) -> Iterator[tuple[str, int]]:
        """Every whole word, and in how many messages it is; a word may come once per table."""
        with sqlite_errors():
            for table in tables:
                yield from self._vocabulary.frequencies(table)

    def _plan(self, known: _Known, table: Table, kind: TermKind, folded: str) -> Plan:
        plan = known.plans.get((table, kind, folded))
        if plan is None:
            words = self._vocabulary.words(table)
            plan = plan_term(kind, folded, words, positions=table == "spoken")
            known.keep((table, kind, folded), plan)
        return plan

    def _matching(self, table: Table, clauses: tuple[str, ...]) -> Iterator[list[int]]:
        """The documents with any of the clauses, each run in ascending order."""
        for some in _portions(clauses):
            # One row with all of them: a row for each would take three times as long.
            (found,) = self._db.execute(
                f"SELECT group_concat(rowid) FROM {table} WHERE {table} MATCH ?",  # noqa: S608 - a closed list of names
                (" OR ".join(some),),
            ).fetchone()
            if found is not None:
                yield _NUMBERS.decode(f"[{found}]")

    def _known_by_now(self) -> _Known:
        """What is remembered of the tables, as they are in the open snapshot."""
        (foreign,) = self._db.execute("PRAGMA data_version").fetchone()
        version = foreign, self._db.total_changes
        if self._known is None or self._known.version != version:
            self._known = _Known(version, *self._marked())
        return self._known

    def _marked(self) -> tuple[frozenset[int], frozenset[int]]:
        """The units that were dropped, and those with loose texts."""
        rows = self._db.execute(
            "SELECT unit, 1 FROM text_units WHERE dead"
            " UNION ALL SELECT unit, 0 FROM text_units WHERE loose"
        ).fetchall()
        dead = frozenset(unit for unit, is_dead in rows if is_dead)
        return dead, frozenset(unit for unit, is_dead in rows if not is_dead)

    def _insert(self, table: Table, rows: list[tuple[int, str]]) -> None:
        self._db.executemany(f"INSERT INTO {table} (rowid, body) VALUES (?, ?)", rows)  # noqa: S608 - a closed list of names
        if not self._in_bulk:
            self._vocabulary.note(table, (text for _, text in rows))

    def _begin(self) -> None:
        if not self._db.in_transaction:
            self._db.execute("BEGIN IMMEDIATE")


def in_order(runs: Sequence[list[int]]) -> list[int]:
    """What is in any of some runs, each in ascending order; every number once."""
    longest = max(runs, key=len, default=list[int]())
    if len(runs) <= 1:
        return longest
    others = set(chain.from_iterable(run for run in runs if run is not longest))
    return sorted([*longest, *others.difference(longest)])


def units_of(ids: Iterable[int]) -> Counter[int]:
    """How many of some documents each unit has."""
    return Counter([key >> UNIT_SHIFT for key in ids])


def _portions(clauses: Sequence[str]) -> Iterator[Sequence[str]]:
    """Many without the first: all are compared for every row, and it has the most rows."""
    first = 1 if len(clauses) > _FEW_CLAUSES else 0
    if first:
        yield clauses[:first]
    for start in range(first, len(clauses), _CLAUSES_AT_ONCE):
        yield clauses[start : start + _CLAUSES_AT_ONCE]


def _merged(key: int, loose: frozenset[int]) -> int:
    unit = key >> UNIT_SHIFT
    return unit << UNIT_SHIFT | UNPLACED_TEXT if unit in loose else key
