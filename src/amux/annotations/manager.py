"""`client.annotations`: tags, stars and notes on any session of any agent.

What is added must be about a session that exists; what was added can be seen and taken back after
the session is gone. Every method that changes something returns when it is on the disk.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final, Protocol

from amux.annotations.events import AnnotationLog, AnnotationState, Event, EventKind
from amux.annotations.file import AnnotationFile
from amux.errors import AmbiguousIdError, ParseError, SessionNotFoundError, ValidationError
from amux.model.annotation import SessionAnnotations
from amux.model.ids import NativeRef, unified_id
from amux.model.problems import Problem

TAG_LENGTH: Final = 100
NOTE_LENGTH: Final = 65_536

_HIDDEN: Final = ("Cc", "Cf", "Cs")  # control and formatting characters, halves of surrogate pairs


class Find(Protocol):
    """How an existing session is found by what a person types."""

    def __call__(self, ref: str, *, agent: str | None = None) -> NativeRef:
        """The one session that is meant; raises SessionNotFoundError."""
        ...


class AnnotationManager:
    """Tags, stars and notes of sessions.

    A `ref` is anything `client.find` understands; `agent` narrows it down.
    """

    def __init__(
        self,
        file: AnnotationFile,
        find: Find,
        *,
        run_tags: Callable[[], Iterable[tuple[str, Sequence[str]]]] = tuple,
        now: Callable[[], datetime],
        read_only: bool = False,
    ) -> None:
        self._file = file
        self._find = find
        self._run_tags = run_tags
        self._now = now
        self._read_only = read_only

    def tag(self, ref: str, *tags: str, agent: str | None = None) -> SessionAnnotations:
        """Give a session tags; those it has already stay as they are.

        Raises:
            ValidationError: A tag is empty, too long, or holds white space, a comma or worse.
            SessionNotFoundError: No session is meant by `ref`, or several are.
        """
        wanted = [_checked_tag(tag) for tag in _some(tags)]
        session = self._existing(ref, agent)
        return self._change(
            session,
            lambda state: [
                self._event(session, "tag", value=tag)
                for tag in dict.fromkeys(wanted)
                if tag not in state.tags
            ],
        )

    def untag(self, ref: str, *tags: str, agent: str | None = None) -> SessionAnnotations:
        """Take tags from a session; it need not exist any more. Tags of its runs stay."""
        unwanted = [tag.strip() for tag in _some(tags)]
        session = self._annotated(ref, agent)
        return self._change(
            session,
            lambda state: [
                self._event(session, "untag", value=tag) for tag in state.tags if tag in unwanted
            ],
        )

    def star(self, ref: str, *, agent: str | None = None) -> SessionAnnotations:
        """Give a session a star."""
        session = self._existing(ref, agent)
        return self._change(
            session,
            lambda state: [self._event(session, "star")] if state.star is None else [],
        )

    def unstar(self, ref: str, *, agent: str | None = None) -> SessionAnnotations:
        """Take the star from a session; it need not exist any more."""
        session = self._annotated(ref, agent)
        return self._change(
            session,
            lambda state: [] if state.star is None else [self._event(session, "unstar")],
        )

    def add_note(self, ref: str, text: str, *, agent: str | None = None) -> int:
        """Write a note on a session; returns its number, which no other note of it ever has.

        Raises:
            ValidationError: The text is empty or too long.
            SessionNotFoundError: No session is meant by `ref`, or several are.
        """
        checked = _checked_note(text)
        session = self._existing(ref, agent)
        given: list[int] = []

        def write(state: AnnotationState) -> list[Event]:
            given.append(state.last_number + 1)
            return [self._event(session, "note", value=checked, number=given[-1])]

        self._change(session, write)
        return given[-1]

    def remove_note(self, ref: str, number: int, *, agent: str | None = None) -> SessionAnnotations:
        """Remove a note by its number; the session need not exist any more.

        Raises:
            ValidationError: The session has no note of that number.
        """
        session = self._annotated(ref, agent)

        def remove(state: AnnotationState) -> list[Event]:
            numbers = [note.number for note, _ in state.notes]
            if number not in numbers:
                shown = ", ".join(map(str, numbers))
                raise ValidationError(
                    f"{session} has no note {number}",
                    fields=("number",),
                    hint=f"it has {shown}" if shown else "it has no notes at all",
                )
            return [self._event(session, "unnote", number=number)]

        return self._change(session, remove)

    def of(self, ref: str, *, agent: str | None = None) -> SessionAnnotations:
        """What was added to a session; it need not exist any more. Tags of its runs are not here.

        Raises:
            SessionNotFoundError: Neither a session nor an annotation is meant by `ref`.
        """
        return self._file.current().of(self._annotated(ref, agent))

    def entries(self) -> tuple[SessionAnnotations, ...]:
        """Every session with an annotation, in the order in which they got their first."""
        return tuple(self._file.current())

    def tags(self) -> dict[str, int]:
        """Every tag, those of runs included, and how many sessions have it."""
        tagged: dict[str, set[str]] = {}
        for entry in self._file.current():
            tagged.setdefault(entry.unified_id, set()).update(entry.tags)
        for session, tags in self._run_tags():
            tagged.setdefault(session, set()).update(tags)
        counts = Counter(tag for tags in tagged.values() for tag in tags)
        return dict(sorted(counts.items()))

    def problems(self) -> tuple[Problem, ...]:
        """What could not be read of the annotations."""
        return self._file.current().problems

    def _existing(self, ref: str, agent: str | None) -> str:
        found = self._find(ref, agent=agent)
        session = unified_id(found.agent, found.native_session_id)
        if not _is_unicode(session):  # a file name may be anything
            raise ValidationError(
                f"`{session}` cannot be annotated: its id is no text", fields=("ref",)
            )
        return session

    def _annotated(self, ref: str, agent: str | None) -> str:
        """A session that exists, or one that is only remembered by its annotations."""
        known = [entry.unified_id for entry in self._file.current()]
        exact = [name for name in known if _is_named(name, ref, agent)]
        if len(exact) == 1:
            return exact[0]
        try:
            return self._existing(ref, agent)
        except AmbiguousIdError:
            raise
        except (SessionNotFoundError, ParseError):
            begun = [name for name in known if _is_named(name, ref, agent, begins=True)]
            if not ref.strip() or not begun:
                raise
            if len(begun) > 1:
                raise _ambiguous(ref, begun) from None
            return begun[0]

    def _change(
        self, session: str, decide: Callable[[AnnotationState], Sequence[Event]]
    ) -> SessionAnnotations:
        if self._read_only:
            raise ValidationError(
                "the sample sessions cannot be annotated", hint="leave out `--demo`"
            )

        def events(log: AnnotationLog) -> Sequence[Event]:
            return decide(log.state_of(session))

        return self._file.change(events).of(session)

    def _event(
        self, session: str, kind: EventKind, *, value: str = "", number: int | None = None
    ) -> Event:
        return Event(at=self._now(), session=session, kind=kind, value=value, number=number)


def _is_named(name: str, ref: str, agent: str | None, *, begins: bool = False) -> bool:
    """Whether a unified id, or its native part, is or begins with what was typed."""
    owner, _, native = name.partition(":")
    if agent is not None and owner != agent:
        return False
    if begins:
        return name.startswith(ref) or native.startswith(ref)
    return ref in (name, native)


def _ambiguous(ref: str, names: Sequence[str]) -> AmbiguousIdError:
    return AmbiguousIdError(
        f"`{ref}` fits {len(names)} annotated sessions", candidates=sorted(names)
    )


def _some(tags: Sequence[str]) -> Sequence[str]:
    if not tags:
        raise ValidationError("no tag is named", fields=("tags",), hint="name at least one")
    return tags


def _checked_tag(tag: str) -> str:
    name = tag.strip()
    if not name:
        raise _bad_tag(tag, "is empty")
    if len(name) > TAG_LENGTH:
        raise _bad_tag(f"{name[:20]}...", f"is longer than {TAG_LENGTH} characters")
    if any(char == "," or char.isspace() for char in name):
        raise _bad_tag(tag, "holds white space or a comma")
    if any(unicodedata.category(char) in _HIDDEN for char in name):
        raise _bad_tag(tag, "holds characters that cannot be seen")
    return name


def _bad_tag(tag: str, reason: str) -> ValidationError:
    return ValidationError(
        f"the tag `{tag}` {reason}", fields=("tags",), hint="a tag is one word, such as `to-review`"
    )


def _checked_note(text: str) -> str:
    note = text.strip()
    if not note:
        raise ValidationError("the note is empty", fields=("text",), hint="write something")
    if len(note) > NOTE_LENGTH:
        raise ValidationError(
            f"the note has {len(note):,} characters",
            fields=("text",),
            hint=f"a note may have {NOTE_LENGTH:,}",
        )
    if not _is_unicode(note):
        raise ValidationError(
            "the note is no text in UTF-8", fields=("text",), hint="convert it first"
        )
    return note


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
