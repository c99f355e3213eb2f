"""Reads Gemini CLI up to 0.2, which has no chats: prompts in `logs.json`, and checkpoints.

Log         one list per project with the typed texts of all sessions, commands included
Checkpoint  the history that the model saw when the user typed `/chat save TAG`; it has no session
            id, but the log shows which session last saved under that tag

Answers are recorded only up to the last checkpoint; after it there are only prompts. Usage is not
recorded. The model is the one in the settings, because no record names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from amux.adapters._base import Head, Item, SourceRef, Want, has_bodies
from amux.adapters._kit.injected import InjectedTexts
from amux.adapters._kit.jsonl import unreadable
from amux.adapters._kit.streams import open_stream
from amux.adapters._kit.values import document, is_items, items, mapping, moment, plain_text, text
from amux.adapters.gemini.content import split_parts
from amux.adapters.gemini.conversation import Conversation
from amux.adapters.gemini.directories import project_directory, read_json
from amux.adapters.gemini.files import configured_model
from amux.adapters.gemini.injected import INJECTED_TEXTS
from amux.adapters.gemini.records import ChatMessage
from amux.model.facts import Facts
from amux.model.incomplete import USAGE_NOT_RECORDED
from amux.model.message import SessionMessage
from amux.model.problems import Problem

LOG_NAME: Final = "logs.json"
CHECKPOINTS: Final = "checkpoint-*.json"

_LARGEST: Final = 64 << 20
_SAVE: Final = ("/chat save ", "/resume save ")
_COMPRESS: Final = ("/compress", "/summarize")
_COMMANDS: Final = ("/", "?")
_WORKING_IN: Final = re.compile(r"working in the directory: ([^\n]{1,1000})")

Entry = dict[str, Any]


def read_logs(source: SourceRef, *, want: Want, only: str | None) -> Iterator[Item]:
    """Yield the sessions of one log."""
    entries = _entries(source.path)
    if isinstance(entries, Problem):
        yield entries
        return
    sessions: dict[str, list[Entry]] = {}
    for entry in entries:
        session_id = text(entry.get("sessionId"))
        if session_id is not None and isinstance(entry.get("message"), str):
            sessions.setdefault(session_id, []).append(entry)
    checkpoints = _checkpoints(source.path.parent, sessions)
    named = _named_directories(history for _, history in checkpoints.values())
    cwd = project_directory(source, source.path.parent, None, named)
    for session_id, typed in sessions.items():
        if only in (None, session_id) and any(_is_prompt(entry) for entry in typed):
            session = _LoggedSession(source, session_id, cwd, want=want)
            yield from session.items(typed, checkpoints.get(session_id))


def _entries(path: Path) -> list[Entry] | Problem:
    try:
        with open_stream(path) as stream:
            data = stream.read(_LARGEST)
    except OSError as error:
        return unreadable(path, error)
    if not data.strip():
        return []
    found = document(data)
    if not is_items(found):
        message = "the log of prompts is not a JSON list"
        return Problem(code="unknown-format", message=message, path=str(path))
    return [mapping(entry) for entry in found]


def _is_prompt(entry: Entry) -> bool:
    message = plain_text(entry.get("message")).lstrip()
    return bool(message) and not message.startswith(_COMMANDS)


def _checkpoints(folder: Path, sessions: dict[str, list[Entry]]) -> dict[str, tuple[int, Any]]:
    """Return, by session, the index of its last save and the saved history."""
    last_saver: dict[str, str] = {}
    saves: dict[str, tuple[int, str]] = {}
    for session_id, entries in sessions.items():
        for index, entry in enumerate(entries):
            command = plain_text(entry.get("message"))
            save = next((save for save in _SAVE if command.startswith(save)), None)
            tag = "" if save is None else command.removeprefix(save).strip()
            if tag and "/" not in tag and "\\" not in tag:
                last_saver[tag] = session_id
                saves[session_id] = (index, tag)
    found: dict[str, tuple[int, Any]] = {}
    for session_id, (index, tag) in saves.items():
        if last_saver[tag] == session_id:
            saved = read_json(folder / CHECKPOINTS.replace("*", tag))
            history = items(mapping(saved).get("history")) or items(saved)
            if history:
                found[session_id] = (index, history)
    return found


def _named_directories(histories: Iterable[Any]) -> Iterator[str]:
    """Yield the working directories that the first texts of saved histories name."""
    for history in histories:
        context = split_parts(history[0]).text
        yield from (found.strip() for found in _WORKING_IN.findall(context))


class _LoggedSession:
    """One session, built from the log and a checkpoint."""

    def __init__(self, source: SourceRef, session_id: str, cwd: str | None, *, want: Want) -> None:
        self._source = source
        self._id = session_id
        self._cwd = cwd
        self._problems: list[Problem] = []
        self._compactions = 0
        self._conversation = Conversation(
            bodies=has_bodies(want),
            delegated=False,
            injected=InjectedTexts(INJECTED_TEXTS),
            on_problem=self._on_problem,
        )

    def items(self, entries: list[Entry], checkpoint: tuple[int, Any] | None) -> Iterator[Item]:
        """Yield head, messages, problems and facts."""
        yield Head(session_id=self._id)
        yield from self._messages(entries, checkpoint)
        yield from self._problems
        yield self._facts()

    def _messages(
        self, entries: list[Entry], checkpoint: tuple[int, Any] | None
    ) -> Iterator[SessionMessage]:
        saved, history = checkpoint or (-1, [])
        for index, content in enumerate(history):
            fields = mapping(content)
            message = ChatMessage(
                kind="gemini" if fields.get("role") == "model" else "user",
                id=f"{self._id}/checkpoint/{index}",
                content=msgspec.Raw(msgspec.json.encode(fields.get("parts"))),
            )
            yield from self._conversation.take(message)
        for index, entry in enumerate(entries):
            command = plain_text(entry.get("message")).strip()
            at = moment(entry.get("timestamp"))
            self._conversation.moment(at)
            if command in _COMPRESS:
                self._compactions += 1
            elif index > saved and _is_prompt(entry):
                content = msgspec.Raw(msgspec.json.encode(entry["message"]))
                prompt = ChatMessage(kind="user", id=f"{self._id}/{index}", at=at, content=content)
                yield from self._conversation.take(prompt)
        yield from self._conversation.flush()

    def _on_problem(self, problem: Problem) -> None:
        self._problems.append(msgspec.structs.replace(problem, path=str(self._source.path)))

    def _facts(self) -> Facts:
        conversation = self._conversation
        model = configured_model(self._source.root)
        return Facts(
            session_id=self._id,
            cwd=self._cwd,
            first_prompt=conversation.first_prompt,
            created_at=conversation.earliest,
            updated_at=conversation.latest,
            trace=conversation.trace(),
            models=() if model is None else (model,),
            compactions=self._compactions,
            gaps=(USAGE_NOT_RECORDED,),
            problems=tuple(self._problems),
            problem_count=len(self._problems),
        )
