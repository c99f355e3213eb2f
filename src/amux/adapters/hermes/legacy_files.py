"""Reads Hermes sessions in single files, written before or beside the database.

Snapshot  `session_<id>.json` (to 0.15) or `<id>.json`: `{session_id, model, session_start,
          last_updated, messages}`, the messages in OpenAI's format without times.
Log       `<id>.jsonl` (gateway): a `session_meta` line with the model, then one message per line.

Neither records usage. Times have no zone and are taken for UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from amux.adapters._base import Head, Item
from amux.adapters._kit.fold import Fold, Unknowns, add_messages
from amux.adapters._kit.jsonl import no_session, read_records, unreadable
from amux.adapters._kit.values import decode, first, is_mapping, items, moment, plain_text, text
from amux.adapters.hermes.facts import BOOKKEEPING
from amux.adapters.hermes.texts import messages_of, role_of, tool_entries
from amux.model.problems import Problem, ProblemCode

_FILE: Final = re.compile(r"session_(?P<id>.+)\.json|(?P<name>[^.].*)\.jsonl?", re.DOTALL)
_DUMP: Final = "request_dump_"
_CHATS: Final = "sessions.json"  # maps chats to sessions
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


def read_file(path: Path, *, bodies: bool) -> Iterator[Item]:
    """Yield the items of the session in a file."""
    read = _read_log if path.suffix == ".jsonl" else _read_snapshot
    yield from read(path, bodies=bodies)


def _read_snapshot(path: Path, *, bodies: bool) -> Iterator[Item]:
    found = _load(path)
    if isinstance(found, Problem):
        yield found
        return
    session_id = text(found.session_id) or session_id_of(path.name) or path.stem
    session = _Session(path)
    yield Head(session_id=session_id)
    for number, record in enumerate(items(found.messages), start=1):
        yield from session.items(record, number, bodies=bodies)
    session.fold.moment(moment(found.session_start))
    session.fold.moment(moment(found.last_updated))
    yield session.fold.facts(
        session_id,
        cwd=text(found.cwd),
        name=text(found.title),
        created_at=moment(found.session_start),
        models=_models([found.model]),
        raw=session.unknown.raw(),
    )


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


def _read_log(path: Path, *, bodies: bool) -> Iterator[Item]:
    session_id = session_id_of(path.name) or path.stem
    session = _Session(path)
    models: list[Any] = []
    has_begun = False
    for found in read_records(path, _LINE):
        if isinstance(found, Problem):
            session.fold.problem(found)
            yield found
            continue
        if not has_begun:
            has_begun = True
            yield Head(session_id=session_id)
        number, record, _ = found
        models.append(record.get("model"))
        session.fold.moment(moment(record.get("timestamp")))
        yield from session.items(record, number, bodies=bodies)
    if has_begun:
        yield session.fold.facts(session_id, models=_models(models), raw=session.unknown.raw())
    else:
        yield from no_session(path, session.fold.problems)


def _models(values: Iterable[Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if isinstance(value, str) and value))


class _Session:
    """Converts messages in OpenAI's format, one after the other."""

    def __init__(self, path: Path) -> None:
        self.fold = Fold()
        self._path = str(path)
        self._names: dict[str, str] = {}
        self.unknown = Unknowns()

    def items(self, record: Any, number: int, *, bodies: bool) -> Iterator[Item]:
        """Yield the messages and the problems of a record."""
        if not is_mapping(record):
            yield self._problem("bad-record", f"message {number} is not an object")
            return
        role = role_of(record.get("role"))
        if role is None and text(record.get("role")) not in BOOKKEEPING:
            kind = first(record, "role", "type")
            self.unknown.take(plain_text(kind), record)
        if role == "tool" and (text(record.get("tool_call_id")) or "") not in self._names:
            yield self._problem(
                "orphan-result", f"message {number} is a result without a tool call"
            )
        messages = messages_of(record, id=str(number), names=self._names)
        yield from add_messages(self.fold, messages, bodies=bodies)
        if tool_entries(record.get("tool_calls")) is None:
            yield self._problem("bad-record", f"the tool calls of message {number} cannot be read")

    def _problem(self, code: ProblemCode, message: str) -> Problem:
        problem = Problem(code=code, message=message, path=self._path)
        self.fold.problem(problem)
        return problem
