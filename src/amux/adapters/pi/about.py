"""What a log says about its session: ids, place, origin, names."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Final, Literal

from amux.adapters._kit.samples import Unknowns
from amux.adapters._kit.values import count, moment, text
from amux.adapters.pi.records import KNOWN_TYPES, SPEAKING_TYPES, Entry
from amux.model.titles import fold_title

Writer = Literal["pi", "omp"]

NEWEST_VERSION: Final = 4
"""The newest format version that is understood: Pi writes 3, OpenClaw 4."""

_TIMED_NAME: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d.-]+Z_(.+)", re.DOTALL)
_SEPARATORS: Final = re.compile(r"[/\\]")
_DATABASE: Final = "sqlite:"
_MOST_LABELS: Final = 100


def session_in(stem: str) -> str | None:
    """The session id in a file name that begins with a time; None for other names."""
    found = _TIMED_NAME.fullmatch(stem)
    return None if found is None else found[1]


def session_behind(reference: str) -> str | None:
    """The id of a session that a log refers to: by its file, or by its place in a database."""
    if reference.startswith(_DATABASE):  # sqlite:<agent>:<session id>:<path>
        parts = reference.split(":")
        return parts[2] if len(parts) > 2 and parts[2] else None  # noqa: PLR2004 - see above
    stem = _SEPARATORS.split(reference)[-1].removesuffix(".jsonl")
    return session_in(stem) or stem or None


class About:
    """Collects it line by line."""

    def __init__(self) -> None:
        self.ids: dict[str, None] = {}
        self.version: int | None = None
        self.cwd: str | None = None
        self.created_at: datetime | None = None
        self.has_header = False
        self.writer: Writer | None = None
        self.task: str | None = None
        self.parent: str | None = None  # the session this one was copied from
        self._reference: str | None = None
        self._thinking_level: str | None = None
        self._title_slot: str | None = None
        self._name: str | None = None
        self._labels: dict[str, str] = {}
        self.unknown = Unknowns()
        self.strange: set[int] = set()  # lines of types that are not known, to be looked at

    @property
    def name(self) -> str | None:
        """The name given by a person or the agent: a fixed slot, else the newest line."""
        return self._title_slot or self._name or None

    @property
    def is_newer_than_known(self) -> bool:
        """Whether the log says that it is written in a format nobody here has seen."""
        return self.version is not None and self.version > NEWEST_VERSION

    def take(self, entry: Entry) -> None:
        """Look at one line."""
        line = entry.line
        match entry.type:
            case "session":
                self._header(entry)
            case "title":
                self._title_slot = text(line.title)
            case "title_change":
                self._name = text(line.title)
            case "session_info":
                self._name = text(line.name)
            case "session_init":
                self.task = text(line.task)
            case "thinking_level_change":
                self._thinking_level = text(line.thinking_level)
            case "model_change":
                self._recognise(entry)
            case "label":
                self._label(text(line.target_id), text(line.label))
            case other:
                self._note(other, entry.number)

    def _recognise(self, entry: Entry) -> None:
        """Pi writes provider and model apart; omp, whose logs always are trees, in one field."""
        if text(entry.line.model_id):
            self.writer = "pi"
        elif text(entry.line.model) and entry.id is not None:
            self.writer = "omp"

    def _header(self, entry: Entry) -> None:
        line = entry.line
        if entry.id is not None:
            self.ids.setdefault(entry.id)
        if self.has_header:
            return
        self.has_header = True
        self.version = count(line.version)
        self.cwd = text(line.cwd)
        self.created_at = moment(line.timestamp)
        self._reference = text(line.parent_session) or text(line.branched_from)
        self.parent = None if self._reference is None else session_behind(self._reference)
        self._name = self._name or text(line.title)

    def _label(self, target: str | None, label: str | None) -> None:
        if target is None:
            return
        if label is None:
            self._labels.pop(target, None)
        elif len(self._labels) < _MOST_LABELS:
            self._labels[target] = fold_title(label)

    def _note(self, kind: str, number: int) -> None:
        is_known = not kind or kind in KNOWN_TYPES or kind in SPEAKING_TYPES
        if not is_known and self.unknown.count(kind):
            self.strange.add(number)

    def raw(self) -> dict[str, Any]:
        """What is left of the agent's own data, by its own names."""
        found: dict[str, Any] = {
            "formatVersion": self.version,
            "parentSession": self._reference,
            "thinkingLevel": self._thinking_level,
            "labels": dict(self._labels),
            **self.unknown.raw(),
        }
        return {name: value for name, value in found.items() if value}
