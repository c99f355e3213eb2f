"""Lines that lie in memory: the events of a database, the messages of a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from amux.adapters._kit.values import decode
from amux.adapters.pi.records import T
from amux.model.problems import Problem


class EventLines:
    """Events in order, and what went wrong while they were fetched."""

    def __init__(
        self, events: Sequence[bytes], *, path: str, problems: Sequence[Problem] = ()
    ) -> None:
        self._events = events
        self._path = path
        self._problems = problems

    def decode(
        self, decoder: msgspec.json.Decoder[T], *, cut_texts: bool
    ) -> Iterator[tuple[int, T | Problem]]:
        """Go through all events."""
        del cut_texts  # they are in memory already
        for problem in self._problems:
            yield 0, problem
        for number, event in enumerate(self._events, start=1):
            found = decode(event, decoder)
            yield number, self._unknown(number) if found is None else found

    def _unknown(self, number: int) -> Problem:
        message = "an event is no JSON object"
        return Problem(code="bad-record", message=message, path=self._path, line=number)
