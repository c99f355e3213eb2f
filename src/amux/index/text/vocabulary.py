"""The distinct tokens of the index: in blocks after a bulk load, one per row if added since.

FTS5 can list its own tokens, but that takes a tenth of a second per hundred thousand: too long for
every search, short enough for the end of a bulk load. Then they are stored in blocks of some
dozens, with an index of the trigrams of each block: a word is searched for in the few blocks that
have its trigrams.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Final, Literal

from amux.index.text.tables import set_option
from amux.model.words import JOINT, stored_tokens

Blocks = Callable[[str], Iterable[bytes]]
"""Returns the blocks of tokens that may contain a text, in UTF-8."""


class WordList:
    """Distinct tokens in any order."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks

    def containing(self, part: str, *, limit: int) -> list[str] | None:
        """Return the tokens that contain `part`; None if there are more than `limit`."""
        return _limited(self._lines(part), limit)

    def ending(self, part: str, *, limit: int) -> list[str] | None:
        """Return the tokens that end with `part`; None if there are more than `limit`."""
        return _limited((line for line in self._lines(part) if line.endswith(part)), limit)

    def _lines(self, part: str) -> Iterator[str]:
        wanted = part.encode()
        for block in self._blocks(part):
            position = block.find(wanted)
            while position >= 0:
                start = block.rfind(b"\n", 0, position) + 1
                end = block.find(b"\n", position)
                end = len(block) if end < 0 else end
                yield block[start:end].decode()
                position = block.find(wanted, end)


def _limited(tokens: Iterable[str], limit: int) -> list[str] | None:
    found = list(islice(tokens, limit + 1))
    if len(found) > limit:
        return None
    return list(dict.fromkeys(found))  # a new word may also be in a block


TextTable = Literal["spoken", "tools"]

TEXT_TABLES: Final[tuple[TextTable, ...]] = ("spoken", "tools")
_MAX_NEW_WORDS: Final = 50_000
"""If more tokens were added one by one, the blocks are written again."""

_BLOCK: Final = 1000  # characters: eight blocks on a page
_TRIGRAM: Final = 3
_STEP: Final = 2  # every second trigram: more would take longer than they save


class Vocabulary:
    """The tokens of both tables of one connection."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def words(self, table: TextTable) -> WordList:
        """Return the current tokens of a table."""
        return WordList(partial(self._blocks, table))

    def note(self, table: TextTable, prepared: Iterable[str]) -> None:
        """Store the tokens of texts that were added."""
        tokens = set[str]().union(*map(stored_tokens, prepared))
        before = self._db.total_changes
        self._db.executemany(
            "INSERT OR IGNORE INTO text_new_words VALUES (?, ?)",
            ((table, token) for token in sorted(tokens)),
        )
        count = self._state("new") + self._db.total_changes - before
        self._set_state("new", count)
        if count > _MAX_NEW_WORDS:
            self.renew()

    @property
    def is_stale(self) -> bool:
        """Whether texts were added without storing their tokens: a bulk load was interrupted."""
        return bool(self._state("stale"))

    def mark_stale(self) -> None:
        """Record that texts are added without storing their tokens."""
        self._set_state("stale", 1)

    def renew(self) -> None:
        """Write the tokens of all texts into new blocks."""
        for table in TEXT_TABLES:
            self._db.execute(f"DELETE FROM {table}_blocks")  # noqa: S608 - constants
            set_option(self._db, f"{table}_trigrams", "delete-all")
            for block in self._listed(table):
                self._db.execute(f"INSERT INTO {table}_blocks (words) VALUES (?)", (block,))  # noqa: S608 - constants
            self._db.execute(
                f"INSERT INTO {table}_trigrams (rowid, words) SELECT id, words FROM {table}_blocks"  # noqa: S608 - constants
            )
        self._db.execute("DELETE FROM text_new_words")
        self._set_state("new", 0)
        self._set_state("stale", 0)

    def frequencies(self, table: TextTable) -> Iterator[tuple[str, int]]:
        """Yield whole words and the number of texts that contain them."""
        for token, texts in self._db.execute(f"SELECT term, doc FROM {table}_words"):  # noqa: S608 - constants
            if JOINT not in token:
                yield token, texts

    def _blocks(self, table: TextTable, part: str) -> Iterable[bytes]:
        """Return the blocks that may contain a text, and the newer tokens that do."""
        trigrams = _trigrams(part)
        those = f"SELECT rowid FROM {table}_trigrams WHERE {table}_trigrams MATCH :trigrams"  # noqa: S608 - constants
        chosen = f"WHERE id IN ({those})" if trigrams else ""
        blocks = f"SELECT words FROM {table}_blocks {chosen}"  # noqa: S608 - constants
        new = "SELECT word FROM text_new_words WHERE text_table = :table AND instr(word, :part)"
        # One row with all of them: there are many, and they are short.
        together = "CAST(group_concat(words, char(10)) AS BLOB)"
        found, is_stale = self._db.execute(
            f"SELECT (SELECT {together} FROM ({blocks} UNION ALL {new})),"  # noqa: S608 - constants
            " (SELECT CAST(value AS INTEGER) FROM text_state WHERE key = 'stale')",
            {"table": table, "part": part, "trigrams": " AND ".join(trigrams)},
        ).fetchone()
        if is_stale:  # a bulk load was interrupted
            return map(str.encode, self._listed(table))
        return () if found is None else (found,)

    def _listed(self, table: TextTable) -> Iterator[str]:
        block: list[str] = []
        size = 0
        for (token,) in self._db.execute(f"SELECT term FROM {table}_words"):  # noqa: S608 - constants
            block.append(token)
            size += len(token) + 1
            if size > _BLOCK:
                yield "\n".join(block)
                block, size = [], 0
        if block:
            yield "\n".join(block)

    def _state(self, key: str) -> int:
        row = self._db.execute(
            "SELECT CAST(value AS INTEGER) FROM text_state WHERE key = ?", (key,)
        ).fetchone()
        return 0 if row is None else int(row[0])

    def _set_state(self, key: str, value: int) -> None:
        self._db.execute("INSERT OR REPLACE INTO text_state VALUES (?, ?)", (key, value))


def _trigrams(part: str) -> set[str]:
    """Return quoted trigrams from all over a text; none if it is too short."""
    last = len(part) - _TRIGRAM
    starts = (*range(0, last, _STEP), last) if last >= 0 else ()
    return {f'"{part[at : at + _TRIGRAM]}"' for at in starts}
