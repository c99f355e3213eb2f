"""The distinct tokens of the index: kept in one piece after a bulk load, row by row since.

FTS5 can list its own tokens, but that takes a tenth of a second per hundred thousand: too long for
every search, short enough for the end of a bulk load.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from amux.index.texts_words import WordList
from amux.model.words import JOINT, stored_tokens

_SIDES: Final = ("spoken", "tools")
_MOST_LATE: Final = 50_000
"""Tokens that came since; from here on it is time for a new piece."""

_Version = tuple[int, int]


class _Loaded(NamedTuple):
    """A list of words, and the state of the database it is true for."""

    version: _Version
    words: WordList


class Vocabulary:
    """The tokens of both tables of one connection."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._loaded: dict[str, _Loaded] = {}

    def words(self, side: str) -> WordList:
        """The tokens of a table as they are now."""
        version = self._version()
        loaded = self._loaded.get(side)
        if loaded is None or loaded.version != version:
            loaded = self._loaded[side] = _Loaded(version, self._load(side))
        return loaded.words

    def note(self, side: str, prepared: Iterable[str]) -> None:
        """Remember the tokens of texts that were added."""
        tokens = set[str]().union(*map(stored_tokens, prepared))
        before = self._db.total_changes
        self._db.executemany(
            "INSERT OR IGNORE INTO text_late_words VALUES (?, ?)",
            ((side, token) for token in sorted(tokens)),
        )
        late = self._state("late") + self._db.total_changes - before
        self._set_state("late", late)
        if late > _MOST_LATE:
            self.renew()

    def mark_stale(self) -> None:
        """Texts will be added whose tokens are not noted."""
        self._set_state("stale", 1)

    def renew(self) -> None:
        """Put the tokens of all texts into one piece again."""
        for side in _SIDES:
            row = (side, self._listed(side))
            self._db.execute("INSERT OR REPLACE INTO text_words VALUES (?, ?)", row)
        self._db.execute("DELETE FROM text_late_words")
        self._set_state("late", 0)
        self._set_state("stale", 0)

    def frequencies(self, side: str) -> Iterator[tuple[str, int]]:
        """Whole words and in how many texts they are."""
        for token, texts in self._db.execute(f"SELECT term, doc FROM {side}_words"):  # noqa: S608 - a closed list of names
            if JOINT not in token:
                yield token, texts

    def _load(self, side: str) -> WordList:
        if self._state("stale"):  # a bulk load did not come to its end
            return WordList(self._listed(side))
        row = self._db.execute(
            "SELECT CAST(words AS BLOB) FROM text_words WHERE side = ?", (side,)
        ).fetchone()
        late = self._db.execute("SELECT word FROM text_late_words WHERE side = ?", (side,))
        later = "\n".join(word for (word,) in late).encode()
        return WordList(later if row is None else b"%b\n%b" % (row[0], later))

    def _listed(self, side: str) -> bytes:
        tokens = self._db.execute(f"SELECT term FROM {side}_words")  # noqa: S608 - a closed list of names
        return "\n".join(token for (token,) in tokens).encode()

    def _version(self) -> _Version:
        (foreign,) = self._db.execute("PRAGMA data_version").fetchone()
        return foreign, self._db.total_changes

    def _state(self, key: str) -> int:
        row = self._db.execute(
            "SELECT CAST(value AS INTEGER) FROM text_state WHERE key = ?", (key,)
        ).fetchone()
        return 0 if row is None else int(row[0])

    def _set_state(self, key: str, value: int) -> None:
        self._db.execute("INSERT OR REPLACE INTO text_state VALUES (?, ?)", (key, value))
