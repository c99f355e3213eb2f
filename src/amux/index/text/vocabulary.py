"""The distinct tokens of the index: in blocks after a bulk load, row by row since.

FTS5 can list its own tokens, but that takes a tenth of a second per hundred thousand: too long for
every search, short enough for the end of a bulk load. Then they are put into blocks of some
dozen, with an index of all three characters in a row that are in a block: a word is looked for in
the few blocks that have its threes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Final, Literal

from amux.model.words import JOINT, stored_tokens

Blocks = Callable[[str], Iterable[bytes]]
"""The blocks of tokens that may contain a text, in UTF-8."""


class WordList:
    """Distinct tokens; their order is of no importance."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks

    def containing(self, part: str, *, limit: int) -> list[str] | None:
        """Tokens with `part` anywhere in them; None when there are too many."""
        return _limited(chain.from_iterable(self._lines(part)), limit)

    def ending(self, part: str, *, limit: int) -> list[str] | None:
        """Tokens that end with `part`; None when there are too many."""
        lines = chain.from_iterable(self._lines(part))
        return _limited((line for line in lines if line.endswith(part)), limit)

    def _lines(self, part: str) -> Iterator[list[str]]:
        """Tokens with `part` in them, block by block."""
        wanted = part.encode()
        return (_lines(block, wanted) for block in self._blocks(part))


def _lines(block: bytes, part: bytes) -> list[str]:
    """The lines of a block that contain a text."""
    lines: list[str] = []
    position = block.find(part)
    while position >= 0:
        start = block.rfind(b"\n", 0, position) + 1
        end = block.find(b"\n", position)
        end = len(block) if end < 0 else end
        lines.append(block[start:end].decode())
        position = block.find(part, end)
    return lines


def _limited(tokens: Iterable[str], limit: int) -> list[str] | None:
    found = list(islice(tokens, limit + 1))
    if len(found) > limit:
        return None
    return list(dict.fromkeys(found))  # one that came later may be known already


TextTable = Literal["spoken", "tools"]

TEXT_TABLES: Final[tuple[TextTable, ...]] = ("spoken", "tools")
_MAX_NEW_WORDS: Final = 50_000
"""Tokens that came since; from here on it is time for new blocks."""

_BLOCK: Final = 1000  # characters: eight blocks on a page
_TRIGRAM: Final = 3
_EVERY: Final = 2  # of the threes that overlap; more would cost more than they sort out


class Vocabulary:
    """The tokens of both tables of one connection."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def words(self, side: TextTable) -> WordList:
        """The tokens of a table as they are now."""
        return WordList(partial(self._blocks, side))

    def note(self, side: TextTable, prepared: Iterable[str]) -> None:
        """Remember the tokens of texts that were added."""
        tokens = set[str]().union(*map(stored_tokens, prepared))
        before = self._db.total_changes
        self._db.executemany(
            "INSERT OR IGNORE INTO text_late_words VALUES (?, ?)",
            ((side, token) for token in sorted(tokens)),
        )
        late = self._state("late") + self._db.total_changes - before
        self._set_state("late", late)
        if late > _MAX_NEW_WORDS:
            self.renew()

    @property
    def is_stale(self) -> bool:
        """Whether texts were added whose tokens are not noted: a bulk load did not end."""
        return bool(self._state("stale"))

    def mark_stale(self) -> None:
        """Texts will be added whose tokens are not noted."""
        self._set_state("stale", 1)

    def renew(self) -> None:
        """Put the tokens of all texts into blocks again."""
        for side in TEXT_TABLES:
            self._db.execute(f"DELETE FROM {side}_blocks")  # noqa: S608 - a closed list of names
            self._db.execute(f"INSERT INTO {side}_threes ({side}_threes) VALUES ('delete-all')")  # noqa: S608 - likewise
            for block in self._listed(side):
                self._db.execute(f"INSERT INTO {side}_blocks (words) VALUES (?)", (block,))  # noqa: S608 - likewise
            self._db.execute(
                f"INSERT INTO {side}_threes (rowid, words) SELECT id, words FROM {side}_blocks"  # noqa: S608 - likewise
            )
        self._db.execute("DELETE FROM text_late_words")
        self._set_state("late", 0)
        self._set_state("stale", 0)

    def frequencies(self, side: TextTable) -> Iterator[tuple[str, int]]:
        """Whole words and in how many texts they are."""
        for token, texts in self._db.execute(f"SELECT term, doc FROM {side}_words"):  # noqa: S608 - a closed list of names
            if JOINT not in token:
                yield token, texts

    def _blocks(self, side: TextTable, part: str) -> Iterable[bytes]:
        """The blocks that may hold a text, and the tokens that came since and do."""
        threes = _trigrams(part)
        those = f"SELECT rowid FROM {side}_threes WHERE {side}_threes MATCH :threes"  # noqa: S608 - a closed list of names
        chosen = f"WHERE id IN ({those})" if threes else ""
        known = f"SELECT words FROM {side}_blocks {chosen}"  # noqa: S608 - likewise
        since = "SELECT word FROM text_late_words WHERE side = :side AND instr(word, :part)"
        # One row with all of them: they are many, and short.
        together = "CAST(group_concat(words, char(10)) AS BLOB)"
        found, is_stale = self._db.execute(
            f"SELECT (SELECT {together} FROM ({known} UNION ALL {since})),"  # noqa: S608 - likewise
            " (SELECT CAST(value AS INTEGER) FROM text_state WHERE key = 'stale')",
            {"side": side, "part": part, "threes": " AND ".join(threes)},
        ).fetchone()
        if is_stale:  # a bulk load did not come to its end
            return map(str.encode, self._listed(side))
        return () if found is None else (found,)

    def _listed(self, side: TextTable) -> Iterator[str]:
        """All tokens, in blocks."""
        block: list[str] = []
        size = 0
        for (token,) in self._db.execute(f"SELECT term FROM {side}_words"):  # noqa: S608 - a closed list of names
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
    """Three characters in a row, in quotes, from all over a text; none where it is too short."""
    last = len(part) - _TRIGRAM
    places = (*range(0, last, _EVERY), last) if last >= 0 else ()
    return {f'"{part[at : at + _TRIGRAM]}"' for at in places}
