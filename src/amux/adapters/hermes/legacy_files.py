"""Reads Hermes sessions in single files, written before or beside the database.

Snapshot  `session_<id>.json` (to 0.15) or `<id>.json`: `{session_id, model, session_start,
          last_updated, messages}`, the messages in OpenAI's format without times.
Log       `<id>.jsonl` (gateway): a `session_meta` line with the model, then one message per line.

Several files of one id are records of one session: their messages are merged. None records usage.
Times have no zone and are taken for UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from amux.adapters._base import Head, Item
from amux.adapters._kit.commands import TitlePrompt
from amux.adapters._kit.fold import Fold, Unknowns, add_messages, line_kind
from amux.adapters._kit.jsonl import no_session, read_records, unreadable
from amux.adapters._kit.values import decode, first, is_mapping, items, moment, plain_text, text
from amux.adapters.hermes.facts import BOOKKEEPING
from amux.adapters.hermes.merging import Entry, merge_entries
from amux.adapters.hermes.profiles import Profile
from amux.adapters.hermes.texts import messages_of, role_of, tool_entries
from amux.model.facts import Facts
from amux.model.incomplete import USAGE_NOT_RECORDED
from amux.model.problems import Problem, ProblemCode
from amux.model.trace import LineKind

_FILE: Final = re.compile(r"session_(?P<id>.+)\.json|(?P<name>[^.].*)\.jsonl?", re.DOTALL)
_DUMP: Final = "request_dump_"
_CHATS: Final = "sessions.json"  # maps chats to sessions
_LOG: Final = ".jsonl"
_LARGEST: Final = 256 << 20  # a snapshot is read into memory


class _Snapshot(msgspec.Struct):
    session_id: Any = None
    model: Any = None
    session_start: Any = None
    last_updated: Any = None
    cwd: Any = None
    title: Any = None
    messages: Any = None


_SNAPSHOT_DECODER: Final = msgspec.json.Decoder(_Snapshot)
_LINE: Final = msgspec.json.Decoder(dict[str, Any])


def session_id_of(name: str) -> str | None:
    """Return the session id in a file name; None for files without a session."""
    found = None if name.startswith(_DUMP) or name == _CHATS else _FILE.fullmatch(name)
    return None if found is None else found["id"] or found["name"]


def files_by_session(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """Return the files of each session; a log precedes the snapshots of its session."""
    found: dict[str, list[Path]] = {}
    for path in paths:
        session_id = session_id_of(path.name)
        if session_id is not None:
            found.setdefault(session_id, []).append(path)
    return {id: sorted(files, key=lambda path: path.suffix != _LOG) for id, files in found.items()}


def read_files(paths: Sequence[Path], *, bodies: bool, profile: Profile) -> Iterator[Item]:
    """Yield the items of the session in one file, or in several files of one session."""
    files = [_File(path) for path in paths]
    if len({each.session_id for each in files}) > 1:  # a snapshot may be of another session
        for each in files:
            yield from _read([each], each.entries(), _Session(profile, each), bodies=bodies)
    else:
        entries = files[0].entries() if len(files) == 1 else _merged(files)
        yield from _read(files, entries, _Session(profile, *files), bodies=bodies)


def _merged(files: Sequence[_File]) -> Iterator[Entry | Problem]:
    """Yield the problems of all files, then their messages, each once."""
    merged: list[Entry] = []
    for each in files:
        entries: list[Entry] = []
        for found in each.entries():
            if isinstance(found, Problem):
                yield found
            else:
                entries.append(found)
        if merged:
            stem = each.path.stem
            entries = [Entry(f"{stem}:{entry.id}", entry.record) for entry in entries]
        merged = merge_entries(merged, entries)
    yield from merged


def _read(
    files: Sequence[_File], entries: Iterable[Entry | Problem], session: _Session, *, bodies: bool
) -> Iterator[Item]:
    session_id = files[0].session_id
    has_begun = False
    for found in entries:
        if isinstance(found, Problem):
            session.fold.problem(found)
            yield found
            continue
        if not has_begun:
            has_begun = True
            yield Head(session_id=session_id)
        yield from session.items(found, bodies=bodies)
    if not any(each.is_session for each in files):
        for log in (each for each in files if each.is_log):
            yield from no_session(log.path, session.fold.problems)
        return
    if not has_begun:
        yield Head(session_id=session_id)
    yield session.facts(session_id)


class _File:
    """One file of a session. Its fields are complete as soon as its entries have been read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_log = path.suffix == _LOG
        self.session_id = session_id_of(path.name) or path.stem
        self.is_session = False
        self.models: list[Any] = []
        self.times: list[datetime | None] = []
        self.cwd: str | None = None
        self.name: str | None = None
        self._snapshot = None if self.is_log else _load(path)
        if isinstance(self._snapshot, _Snapshot):
            self._take(self._snapshot)

    def _take(self, found: _Snapshot) -> None:
        self.is_session = True
        self.session_id = text(found.session_id) or self.session_id
        self.models = [found.model]
        self.times = [moment(found.session_start), moment(found.last_updated)]
        self.cwd = text(found.cwd)
        self.name = text(found.title)

    def entries(self) -> Iterator[Entry | Problem]:
        """Yield the messages of the file, and its problems."""
        if isinstance(self._snapshot, Problem):
            yield self._snapshot
        elif self._snapshot is not None:
            for number, record in enumerate(items(self._snapshot.messages), start=1):
                yield Entry(str(number), record)
        else:
            yield from self._lines()

    def _lines(self) -> Iterator[Entry | Problem]:
        for found in read_records(self.path, _LINE):
            if isinstance(found, Problem):
                yield found
                continue
            self.is_session = True
            number, record, _ = found
            self.models.append(record.get("model"))
            self.times.append(moment(record.get("timestamp")))
            yield Entry(str(number), record)


def _load(path: Path) -> _Snapshot | Problem:
    try:
        with path.open("rb") as stream:
            data = stream.read(_LARGEST + 1)
    except OSError as error:
        return unreadable(path, error)
    found = decode(data, _SNAPSHOT_DECODER) if len(data) <= _LARGEST else None
    if found is None or not isinstance(found.messages, list):
        message = "the file is not a session that amux can read"
        return Problem(code="unknown-format", message=message, path=str(path))
    return found


class _Session:
    """Converts messages in OpenAI's format, one after the other."""

    def __init__(self, profile: Profile, *files: _File) -> None:
        self.fold = Fold()
        self._profile = profile
        self._files = files
        self._path = str(files[0].path)
        self._names: dict[str, str] = {}
        self._unknown = Unknowns()
        self._title = TitlePrompt()
        self._replied = False

    def items(self, entry: Entry, *, bodies: bool) -> Iterator[Item]:
        """Yield the messages and the problems of a record."""
        id, record = entry
        if not is_mapping(record):
            yield self._problem("bad-record", f"message {id} is not an object")
            return
        role = role_of(record.get("role"))
        if role is None and text(record.get("role")) not in BOOKKEEPING:
            kind = first(record, "role", "type")
            self._unknown.take(plain_text(kind), record)
        if role == "tool" and (text(record.get("tool_call_id")) or "") not in self._names:
            yield self._problem("orphan-result", f"message {id} is a result without a tool call")
        messages = list(messages_of(record, id=id, names=self._names))
        for message in messages:
            kind = line_kind(message)
            if kind is LineKind.PROMPT:
                self._title.prompt(message.content)
            elif kind is LineKind.REPLY:
                self._title.answer()
                self._replied = True
        yield from add_messages(self.fold, messages, bodies=bodies)
        if tool_entries(record.get("tool_calls")) is None:
            yield self._problem("bad-record", f"the tool calls of message {id} cannot be read")

    def facts(self, session_id: str) -> Facts:
        """Return the facts; the first file that has a field determines it."""
        files = self._files
        for at in (at for each in files for at in each.times):
            self.fold.moment(at)
        models = (model for each in files for model in each.models)
        return self.fold.facts(
            session_id,
            aliases=(self._profile.alias(session_id),),
            namespace=self._profile.namespace(),
            cwd=next((each.cwd for each in files if each.cwd), None),
            name=next((each.name for each in files if each.name), None),
            models=tuple(dict.fromkeys(m for m in models if isinstance(m, str) and m)),
            first_prompt=self._title.text or None,
            gaps=(USAGE_NOT_RECORDED,) if self._replied else None,
            raw=self._profile.raw | self._unknown.raw(),
        )

    def _problem(self, code: ProblemCode, message: str) -> Problem:
        problem = Problem(code=code, message=message, path=self._path)
        self.fold.problem(problem)
        return problem
