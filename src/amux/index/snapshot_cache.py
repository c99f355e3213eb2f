"""Caches snapshots of the files of agents, and values that were computed from them.

Without `max_age`, every question takes a snapshot of its own. With it, a long-lived process may
answer from snapshots that are at most that many seconds old, as if it had been asked when they were
taken. Snapshots have a generation number: a value computed from them expires with them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

from amux.index.errors import TextIndexError
from amux.index.freshness import agent_snapshot

if TYPE_CHECKING:
    from amux.index.updater import IndexUpdater


Clock = Callable[[], float]
"""Returns seconds since an arbitrary start; never goes back."""


class SnapshotCache:
    """The snapshots of the current generation."""

    def __init__(self, max_age: float = 0.0, *, clock: Clock = time.monotonic) -> None:
        self._max_age = max_age
        self._clock = clock
        self._snapshots: dict[tuple[str, ...], bytes] = {}
        self._generation = 0
        self._began: float | None = None
        self._is_frozen = False

    @property
    def is_enabled(self) -> bool:
        """Whether a snapshot may be used for more than one question."""
        return self._max_age > 0

    def generation(self) -> int:
        """Return the number of the current generation; a new one begins if it is too old."""
        now = self._clock()
        if self._began is None or (not self._is_frozen and now - self._began >= self._max_age):
            self._snapshots = {}
            self._began = now
            self._generation += 1
        return self._generation

    def state(self, roots: Sequence[str], files: Sequence[str]) -> bytes:
        """Return the snapshot of some roots and files, taken once per generation."""
        self.generation()
        key = (*roots, "", *files)
        if key not in self._snapshots:
            self._snapshots[key] = agent_snapshot(roots, files)
        return self._snapshots[key]

    def clear(self) -> None:
        """Discard all snapshots: they are older than the files that were read since."""
        self._snapshots = {}

    @contextmanager
    def frozen(self) -> Generator[None]:
        """Keep one generation for all questions inside the `with` block."""
        self._began = self._began if self.is_enabled else None
        self.generation()
        self._is_frozen = True
        try:
            yield
        finally:
            self._is_frozen = False


T = TypeVar("T")
State = tuple[object, ...]


class GenerationCache(Generic[T]):
    """Caches the last value computed from a snapshot of the files.

    The entry expires with the snapshot (see `max_age`) or as soon as any process writes to the
    index.
    """

    def __init__(self) -> None:
        self._last: tuple[State, T] | None = None

    def get(self, updater: IndexUpdater, key: State, compute: Callable[[], T]) -> T:
        """Return the cached value for an equal `key`, or compute it now."""
        generation = updater.snapshots.generation()
        if self._last is not None and self._last[0] == (key, generation, *_state(updater)):
            return self._last[1]
        value = compute()
        self._last = ((key, generation, *_state(updater)), value)
        return value


def _state(updater: IndexUpdater) -> State:
    """Return a value that changes with everything that is written to the index."""
    database = updater.database
    try:
        if database.exists():
            texts = database.texts
            return database.version(), None if texts is None else (id(texts), *texts.version())
    except TextIndexError:
        pass  # the next question meets the error
    return (object(),)  # equal to nothing
