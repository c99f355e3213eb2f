"""`client.annotations`: tags, stars and notes on any session of any agent.

Annotations can be added only to an existing session; they can be read and removed after the session
is deleted. A method that changes something returns when the change is on the disk.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final, Protocol

from amux.annotations.events import AnnotationState, Event, EventKind
from amux.annotations.file import AnnotationFile
from amux.errors import AmbiguousIdError, ParseError, SessionNotFoundError, ValidationError
from amux.model.annotation import SessionAnnotations
from amux.model.ids import NativeRef, unified_id
from amux.model.problems import Problem

TAG_LENGTH: Final = 100
NOTE_LENGTH: Final = 65_536

_HIDDEN: Final = ("Cc", "Cf", "Cs")  # control and formatting characters, halves of surrogate pairs


class Find(Protocol):
    """A function that finds an existing session by a user-provided reference."""

    def __call__(self, ref: str, *, agent: str | None = None) -> NativeRef:
        """Return the session; raise SessionNotFoundError if there is not exactly one."""
        ...


class AnnotationManager:
    """Tags, stars and notes of sessions.

    A `ref` is anything that `client.find` accepts; `agent` restricts it to one agent.
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
        """Add tags to a session; tags it already has stay as they are.

        Raises:
            ValidationError: A tag is empty, too long, or contains an invalid character.
            SessionNotFoundError: `ref` matches no session, or several.
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
        """Remove tags from a session, which need not exist any more. Tags of its runs stay."""
        unwanted = [tag.strip() for tag in _some(tags)]
        session = self._annotated(ref, agent)
        return self._change(
            session,
            lambda state: [
                self._event(session, "untag", value=tag) for tag in state.tags if tag in unwanted
            ],
        )

    def star(self, ref: str, *, agent: str | None = None) -> SessionAnnotations:
        """Add a star to a session."""
        session = self._existing(ref, agent)
        return self._change(
            session,
            lambda state: [self._event(session, "star")] if state.star is None else [],
        )

    def unstar(self, ref: str, *, agent: str | None = None) -> SessionAnnotations:
        """Remove the star of a session, which need not exist any more."""
        session = self._annotated(ref, agent)
        return self._change(
            session,
            lambda state: [] if state.star is None else [self._event(session, "unstar")],
        )

    def add_note(self, ref: str, text: str, *, agent: str | None = None) -> int:
        """Add a note to a session and return its number, which is never reused.

        Raises:
            ValidationError: The text is empty or too long.
            SessionNotFoundError: `ref` matches no session, or several.
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
        """Remove a note by its number. The session need not exist any more.

        Raises:
            ValidationError: The session has no note with that number.
        """
        session = self._annotated(ref, agent)

        def remove(state: AnnotationState) -> list[Event]:
            numbers = [note.number for note, _ in state.notes]
            if number not in numbers:
                shown = ", ".join(map(str, numbers))
                raise ValidationError(
                    f"`{session}` has no note {number}",
                    fields=("number",),
                    hint=f"notes of this session: {shown or 'none'}",
                )
            return [self._event(session, "unnote", number=number)]

        return self._change(session, remove)

    def of(self, ref: str, *, agent: str | None = None) -> SessionAnnotations:
        """Return the annotations of a session, without the tags of its runs.

        The session need not exist any more.

        Raises:
            SessionNotFoundError: `ref` matches neither a session nor an annotated id.
        """
        return self._file.current().of(self._annotated(ref, agent))

    def entries(self) -> tuple[SessionAnnotations, ...]:
        """Return the annotations of all annotated sessions, in the order of their first events."""
        return tuple(self._file.current())

    def tags(self) -> dict[str, int]:
        """Return every tag, including those of runs, and the number of sessions that have it."""
        tagged: dict[str, set[str]] = {}
        for entry in self._file.current():
            tagged.setdefault(entry.unified_id, set()).update(entry.tags)
        for session, tags in self._run_tags():
            tagged.setdefault(session, set()).update(tags)
        counts = Counter(tag for tags in tagged.values() for tag in tags)
        return dict(sorted(counts.items()))

    def problems(self) -> tuple[Problem, ...]:
        """Return the problems of the annotation file."""
        return self._file.current().problems

    def _existing(self, ref: str, agent: str | None) -> str:
        found = self._find(ref, agent=agent)
        session = unified_id(found.agent, found.native_session_id)
        if not _is_unicode(session):  # the id may come from an undecodable file name
            raise ValidationError(
                f"`{session}` cannot be annotated: its id is not valid Unicode", fields=("ref",)
            )
        return session

    def _annotated(self, ref: str, agent: str | None) -> str:
        """Return the id of an existing session, or of one that only has annotations left."""
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
                raise AmbiguousIdError(
                    f"`{ref}` matches {len(begun)} annotated sessions", candidates=sorted(begun)
                ) from None
            return begun[0]

    def _change(
        self, session: str, decide: Callable[[AnnotationState], Sequence[Event]]
    ) -> SessionAnnotations:
        if self._read_only:
            raise ValidationError(
                "the sample sessions cannot be annotated", hint="run amux without `--demo`"
            )
        return self._file.change(lambda log: decide(log.state_of(session))).of(session)

    def _event(
        self, session: str, kind: EventKind, *, value: str = "", number: int | None = None
    ) -> Event:
        return Event(at=self._now(), session=session, kind=kind, value=value, number=number)


def _is_named(name: str, ref: str, agent: str | None, *, begins: bool = False) -> bool:
    """Return whether a unified id or its native part equals `ref`; if `begins`, starts with it."""
    owner, _, native = name.partition(":")
    if agent is not None and owner != agent:
        return False
    if begins:
        return name.startswith(ref) or native.startswith(ref)
    return ref in (name, native)


def _some(tags: Sequence[str]) -> Sequence[str]:
    if not tags:
        raise ValidationError("no tag is given", fields=("tags",), hint="give at least one tag")
    return tags


def _checked_tag(tag: str) -> str:
    name = tag.strip()
    if not name:
        raise _bad_tag(tag, "is empty")
    if len(name) > TAG_LENGTH:
        raise _bad_tag(f"{name[:20]}...", f"is longer than {TAG_LENGTH} characters")
    if any(char == "," or char.isspace() for char in name):
        raise _bad_tag(tag, "contains white space or a comma")
    if any(unicodedata.category(char) in _HIDDEN for char in name):
        raise _bad_tag(tag, "contains invisible characters")
    return name


def _bad_tag(tag: str, reason: str) -> ValidationError:
    return ValidationError(
        f"the tag `{tag}` {reason}", fields=("tags",), hint="a tag is one word, such as `to-review`"
    )


def _checked_note(text: str) -> str:
    note = text.strip()
    if not note:
        raise ValidationError("the note is empty", fields=("text",), hint="give the note a text")
    if len(note) > NOTE_LENGTH:
        raise ValidationError(
            f"the note has {len(note):,} characters",
            fields=("text",),
            hint=f"a note may have at most {NOTE_LENGTH:,} characters",
        )
    if not _is_unicode(note):
        raise ValidationError(
            "the note is not valid UTF-8", fields=("text",), hint="convert it to UTF-8 first"
        )
    return note


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
