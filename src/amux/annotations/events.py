"""The events of the annotation file, and the annotations that result from them.

The file holds one JSON object per line: `at`, `session` (a unified id), `kind`, and `value` and
`number` if the kind needs them. Events are applied in order; a later event overrides an earlier
one. An unknown kind was written by a newer version: it is ignored but never removed. Unreadable
lines become problems, never exceptions, and are not removed either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Final, Literal, get_args

import msgspec

from amux.model.annotation import Note, SessionAnnotations
from amux.model.problems import Problem
from amux.model.when import to_utc

EventKind = Literal["tag", "untag", "star", "unstar", "note", "unnote"]

_Number = Annotated[int, msgspec.Meta(ge=1)]
_BOM: Final = b"\xef\xbb\xbf"
_NOISE: Final = b" \t\r\n\x00"


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line. `value` is a tag or the text of a note; `number` is that of a note."""

    at: datetime
    session: str
    kind: EventKind
    value: str = ""
    number: _Number | None = None

    def flaw(self) -> str | None:
        """Return why the event is unusable although every field has the right type, or None."""
        if self.kind in ("tag", "untag") and not self.value:
            return "a tag without a name"
        if self.kind in ("note", "unnote") and self.number is None:
            return "a note without a number"
        return None


class _KindOnly(msgspec.Struct, frozen=True):
    kind: str


_EVENT: Final = msgspec.json.Decoder(Event)
_KIND: Final = msgspec.json.Decoder(_KindOnly)
_KNOWN: Final = get_args(EventKind)
_UNDECODABLE: Final = (msgspec.DecodeError, UnicodeError, RecursionError)


def encode_events(events: Sequence[Event]) -> bytes:
    """Return the lines of events. Raises UnicodeEncodeError for lone surrogates."""
    return b"".join(msgspec.json.encode(event) + b"\n" for event in events)


class Annotations:
    """All annotations at the time when the file was read."""

    __slots__ = ("_entries", "problems", "state")

    def __init__(
        self,
        entries: Mapping[str, SessionAnnotations] | None = None,
        *,
        problems: Sequence[Problem] = (),
    ) -> None:
        self._entries = entries or {}
        self.problems = tuple(problems)
        self.state = "None"  # inode, size and mtime of the file, if there is one

    def __bool__(self) -> bool:
        return bool(self._entries)

    def __iter__(self) -> Iterator[SessionAnnotations]:
        return iter(self._entries.values())

    def of(self, unified_id: str) -> SessionAnnotations:
        """Return the annotations of a session, which may be empty."""
        return self._entries.get(unified_id) or SessionAnnotations(
            unified_id=unified_id, tags=(), starred=False, notes=()
        )

    def tags_of(self, agent: str, session_id: str) -> tuple[str, ...]:
        """Return the tags of a session in the order in which they were added."""
        found = self._entries.get(f"{agent}:{session_id}")
        return () if found is None else found.tags

    def starred(self, agent: str, session_id: str) -> bool:
        """Return whether a session is starred."""
        found = self._entries.get(f"{agent}:{session_id}")
        return found is not None and found.starred

    def notes_of(self, agent: str, session_id: str) -> tuple[Note, ...]:
        """Return the notes of a session, oldest first."""
        found = self._entries.get(f"{agent}:{session_id}")
        return () if found is None else found.notes


@dataclass(slots=True)
class AnnotationState:
    """The annotations of one session, each with the index of its line."""

    tags: dict[str, int] = field(default_factory=dict[str, int])
    star: int | None = None
    notes: list[tuple[Note, int]] = field(default_factory=list[tuple[Note, int]])
    last_number: int = 0
    last_removal: int | None = None  # the only remaining line that holds the last number

    def apply(self, event: Event, line: int) -> None:
        """Apply one event."""
        match event.kind:
            case "tag":
                self.tags.setdefault(event.value, line)
            case "untag":
                self.tags.pop(event.value, None)
            case "star":
                self.star = line if self.star is None else self.star
            case "unstar":
                self.star = None
            case "note" | "unnote":
                self._apply_note(event, event.number or 0, line)

    def _apply_note(self, event: Event, number: int, line: int) -> None:
        if event.kind == "note":
            note = Note(number=number, at=to_utc(event.at), text=event.value)
            self.notes.append((note, line))
        else:
            self.notes = [each for each in self.notes if each[0].number != number]
        if number >= self.last_number:
            self.last_number = number
            self.last_removal = line if event.kind == "unnote" else None

    def live_lines(self) -> Iterator[int]:
        """Yield the lines that must not be removed."""
        yield from self.tags.values()
        yield from (line for _, line in self.notes)
        yield from (line for line in (self.star, self.last_removal) if line is not None)

    def view(self, unified_id: str) -> SessionAnnotations | None:
        """Return the public form; None if all annotations were removed."""
        if not self.tags and self.star is None and not self.notes:
            return None
        return SessionAnnotations(
            unified_id=unified_id,
            tags=tuple(self.tags),
            starred=self.star is not None,
            notes=tuple(note for note, _ in self.notes),
        )


class AnnotationLog:
    """All lines of the file, and the state of each session that results from them."""

    def __init__(self, data: bytes, *, path: str | None = None) -> None:
        self._data = b""
        self._path = path
        self._sessions: dict[str, AnnotationState] = {}
        self._unused: set[int] = set()
        self._problems: list[Problem] = []
        self.extend(data)

    @property
    def size(self) -> int:
        """Return the size of all lines in bytes."""
        return len(self._data)

    def extend(self, data: bytes) -> None:
        """Apply appended lines; an unfinished last line is terminated first, as `append` does."""
        if self._data and not self._data.endswith(b"\n"):
            self._data += b"\n"
        first = self._data.count(b"\n")
        self._data += data
        *whole, rest = data.split(b"\n")
        for index, raw in enumerate(whole, start=first):
            self._fold(raw, index, ended=True)
        self._fold(rest, first + len(whole), ended=False)

    def state_of(self, unified_id: str) -> AnnotationState:
        """Return the state of a session."""
        return self._sessions.get(unified_id) or AnnotationState()

    def annotations(self) -> Annotations:
        """Return the public form of all annotations."""
        views = {name: state.view(name) for name, state in self._sessions.items()}
        return Annotations(
            {name: view for name, view in views.items() if view is not None},
            problems=self._problems,
        )

    def compacted(self) -> bytes:
        """Return the lines without those that later lines have undone or repeated."""
        live = self._unused.union(*(state.live_lines() for state in self._sessions.values()))
        lines = self._data.split(b"\n")
        return b"".join(lines[index] + b"\n" for index in sorted(live))

    def _fold(self, raw: bytes, index: int, *, ended: bool) -> None:
        text = raw.strip(_NOISE).removeprefix(_BOM if index == 0 else b"")
        if not text:
            return
        event = _decode(text, ended=ended)
        if isinstance(event, Event):
            self._sessions.setdefault(event.session, AnnotationState()).apply(event, index)
            return
        self._unused.add(index)
        if event is not None:
            problem = msgspec.structs.replace(event, path=self._path, line=index + 1)
            self._problems.append(problem)


def _decode(text: bytes, *, ended: bool) -> Event | Problem | None:
    """Return the event of a line, or a problem; None if only a newer version knows its kind."""
    try:
        event = _EVENT.decode(text)
    except msgspec.ValidationError as error:
        if _kind(text) not in (None, *_KNOWN):
            return None
        return Problem(
            code="bad-record", message=f"an annotation has an unexpected shape ({error})"
        )
    except _UNDECODABLE as error:
        code: Literal["bad-line", "torn-tail"] = "bad-line" if ended else "torn-tail"
        return Problem(code=code, message=f"an annotation is not valid JSON ({error})")
    flaw = event.flaw()
    return event if flaw is None else Problem(code="bad-record", message=f"an annotation is {flaw}")


def _kind(text: bytes) -> str | None:
    try:
        return _KIND.decode(text).kind
    except _UNDECODABLE:
        return None
