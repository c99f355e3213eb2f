"""What was made from one look at the files, given again as long as that look may be believed.

Besides the look it rests on the index: whoever writes into that, this process or another, ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from amux.index.updater import IndexUpdater

T = TypeVar("T")
State = tuple[object, ...]


class GenerationCache(Generic[T]):
    """The last thing that was made, and what for."""

    def __init__(self) -> None:
        self._last: tuple[State, T] | None = None

    def get(self, keeper: IndexUpdater, wanted: State, make: Callable[[], T]) -> T:
        """What was made for the same question from the same look; else it is made now."""
        generation = keeper.snapshots.generation()
        if self._last is not None and self._last[0] == (wanted, generation, *_state(keeper)):
            return self._last[1]
        made = make()
        self._last = ((wanted, generation, *_state(keeper)), made)
        return made


def _state(keeper: IndexUpdater) -> State:
    """Changes with everything that is written into the index."""
    from amux.index.errors import TextIndexError

    store = keeper.store
    try:
        return (store.version(), store.text_version()) if store.exists() else (object(),)
    except TextIndexError:
        return (object(),)  # equal to nothing: who asks next finds out what is wrong
