"""Looks at files: how they were, and for how long that may be believed.

Without a `max_age` every question takes a look of its own. With one, a process that stays may
answer from looks that are at most so many seconds old, as if it had been asked when they were
taken. Looks come in generations: what was made from one holds as long as it does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

from amux.index.freshness import agent_snapshot

if TYPE_CHECKING:
    from amux.index.updater import IndexUpdater


Clock = Callable[[], float]
"""Seconds from any beginning, never going back."""


class SnapshotCache:
    """What was seen of files, by place."""

    def __init__(self, max_age: float = 0.0, *, clock: Clock = time.monotonic) -> None:
        self._max_age = max_age
        self._clock = clock
        self._seen: dict[tuple[str, ...], bytes] = {}
        self._generation = 0
        self._began: float | None = None
        self._is_held = False

    @property
    def is_enabled(self) -> bool:
        """Whether a look may serve more than one question."""
        return self._max_age > 0

    def generation(self) -> int:
        """The number of the looks that may be used now; those that are too old are forgotten."""
        now = self._clock()
        if self._began is None or (not self._is_held and now - self._began >= self._max_age):
            self._seen = {}
            self._began = now
            self._generation += 1
        return self._generation

    def state(self, roots: Sequence[str], files: Sequence[str]) -> bytes:
        """The state of some places (see `look_at`), as it was seen in this generation."""
        self.generation()
        key = (*roots, "", *files)
        if key not in self._seen:
            self._seen[key] = agent_snapshot(roots, files)
        return self._seen[key]

    def clear(self) -> None:
        """Files were read since: what was seen before says less than what is kept of them."""
        self._seen = {}

    @contextmanager
    def frozen(self) -> Generator[None]:
        """Within it every place is looked at once, however many questions are asked."""
        self._began = self._began if self.is_enabled else None
        self.generation()
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False


T = TypeVar("T")
State = tuple[object, ...]


class GenerationCache(Generic[T]):
    """The last thing that was made, and what for."""

    def __init__(self) -> None:
        self._last: tuple[State, T] | None = None

    def get(self, updater: IndexUpdater, wanted: State, make: Callable[[], T]) -> T:
        """What was made for the same question from the same look; else it is made now."""
        generation = updater.snapshots.generation()
        if self._last is not None and self._last[0] == (wanted, generation, *_state(updater)):
            return self._last[1]
        made = make()
        self._last = ((wanted, generation, *_state(updater)), made)
        return made


def _state(updater: IndexUpdater) -> State:
    """Changes with everything that is written into the index."""
    from amux.index.errors import TextIndexError

    database = updater.database
    try:
        return (database.version(), database.text_version()) if database.exists() else (object(),)
    except TextIndexError:
        return (object(),)  # equal to nothing: who asks next finds out what is wrong
