"""The base of the readers, and getters for values of unknown types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, cast

import msgspec

from amux.model.usage import Tokens
from amux.runs.events import AgentEvent

Record = dict[str, Any]
Handler = Callable[[Any, Record], Iterable[AgentEvent]]

SHOWN_OF_A_LINE: Final = 64 * 1024
_LARGEST: Final = 1 << 53
_UNDECODABLE: Final = (msgspec.DecodeError, UnicodeError, RecursionError)


class EventReader:
    """Turns lines of the agent's output into events.

    A subclass has a table of handlers by the type of a record, which `kind_of` returns.
    `understood` counts the records that a handler accepted, `answer` is the last whole answer.
    """

    handlers: ClassVar[Mapping[str, Handler]] = {}

    def __init__(self, *, action: str = "new", version: str | None = None) -> None:
        self.action, self.version = action, version
        self.understood: int = 0
        self.answer: str | None = None

    def line(self, line: bytes) -> Iterator[AgentEvent]:
        """Yield the events of one line, at least one unless the line is blank."""
        if not line.strip():
            return
        record = decoded(line)
        if record is None:
            text = line[:SHOWN_OF_A_LINE].decode("utf-8", "replace").rstrip("\r\n")
            yield AgentEvent(type="unknown", text=text)
            return
        yield from self.record(record)

    def record(self, record: Record) -> Iterator[AgentEvent]:
        """Yield the events of one record; the first carries the record itself."""
        handler = self.handlers.get(self.kind_of(record))
        events = [] if handler is None else list(handler(self, record))
        self.understood += handler is not None
        if not events:
            events = [AgentEvent(type="unknown")]
        yield msgspec.structs.replace(events[0], raw=record)
        yield from events[1:]

    def finish(self) -> Iterator[AgentEvent]:
        """Yield the events that only the end of the output reveals."""
        yield from ()

    def errors(self, text: str) -> Iterator[AgentEvent]:
        """Yield the events in the end of the standard error, after `finish`; most have none."""
        del text
        yield from ()

    def kind_of(self, record: Record) -> str:
        """Return the key of a record in the table."""
        return text_of(record.get("type")) or ""


class DocumentReader(EventReader):
    """Reads an output that is one JSON document, possibly over several lines."""

    longest: ClassVar[int] = 64 * 1024 * 1024

    def __init__(self, *, action: str = "new", version: str | None = None) -> None:
        super().__init__(action=action, version=version)
        self._lines: list[bytes] = []
        self._size = 0

    def line(self, line: bytes) -> Iterator[AgentEvent]:
        """Collect a line; yield one that cannot be part of the document."""
        if self._size == 0 and not line.lstrip().startswith(b"{"):
            yield from super().line(line)
        elif self._size + len(line) > self.longest:
            text = line[:SHOWN_OF_A_LINE].decode("utf-8", "replace")
            yield AgentEvent(type="unknown", text=text)
        else:
            self._lines.append(line)
            self._size += len(line)

    def finish(self) -> Iterator[AgentEvent]:
        """Yield the events of the document, or its lines if it is none."""
        record = decoded(b"".join(self._lines)) if self._lines else None
        if record is not None:
            yield from self.record(record)
            return
        for line in self._lines:
            yield from super().line(line)


def decoded(data: bytes) -> Record | None:
    """Return the JSON object in `data`; None if there is something else."""
    try:
        value = msgspec.json.decode(data)
    except _UNDECODABLE:
        return None
    return cast("Record", value) if isinstance(value, dict) else None


def text_of(value: object) -> str | None:
    """Return a text; None for anything else."""
    return value if isinstance(value, str) else None


def record_of(value: object) -> Record:
    """Return a JSON object; an empty one for anything else."""
    return cast("Record", value) if isinstance(value, dict) else {}


def records_of(value: object) -> list[Record]:
    """Return the JSON objects in a list."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Record", item) for item in items if isinstance(item, dict)]


def _number(value: object) -> int | float | None:
    """Return a finite number that is not negative; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value <= _LARGEST else None


def count_of(value: object) -> int:
    """Return a number of tokens; 0 for anything that is none."""
    return int(_number(value) or 0)


def usd_of(value: object) -> float | None:
    """Return an amount of money; None for anything that is none."""
    number = _number(value)
    return None if number is None else float(number)


def joined_text(value: object) -> str:
    """Return a text, or the texts of a list of content blocks, joined by line breaks."""
    if isinstance(value, str):
        return value
    texts = (text_of(block.get("text")) for block in records_of(value))
    return "\n".join(text for text in texts if text)


def tokens_from(
    record: Record, *, input: str, output: str, cached: str = "", written: str = "",
    thinking: str = "", is_cache_in_input: bool = False, is_thinking_in_output: bool = True,
) -> Tokens | None:  # fmt: skip
    """Return the tokens of a record by the names of its fields; None if it has none of them."""
    if input not in record and output not in record:
        return None
    read, write = count_of(record.get(cached)), count_of(record.get(written))
    sent = count_of(record.get(input)) - (read + write if is_cache_in_input else 0)
    thought = count_of(record.get(thinking)) if record.get(thinking) is not None else None
    answered = count_of(record.get(output))
    return Tokens(
        input=max(sent, 0),
        cache_read=read,
        cache_write=write,
        output=answered if is_thinking_in_output else answered + (thought or 0),
        thinking=thought,
    )
