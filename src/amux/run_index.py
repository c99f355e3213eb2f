"""The run index: the runs that were started, with their sessions, tags and costs.

The file holds one JSON object per line, written at the start of a run and again at its end. Lines
with the same `runId` are merged field by field; a later line overrides an earlier one. A killed run
has only its first line and still counts. The index is read from the configuration directory and
from the nearest project directory; a missing file means no runs. Unusable lines become problems,
never exceptions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec

from amux.host import Host, os_error_message
from amux.model.base import Model
from amux.model.cost import CostRecord
from amux.model.problems import Problem, ProblemCode
from amux.model.when import to_utc

FILE_NAME = "run-index.jsonl"
VERSION = 1
_BOM = b"\xef\xbb\xbf"
_NOISE = b" \t\r\n\x00"

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Amount = Annotated[float, msgspec.Meta(ge=0)]


class RecordedRun(Model, frozen=True, kw_only=True):
    """One run, merged from its lines. `at` is the time of the last line."""

    run_id: str
    agent: str
    at: datetime
    model: str | None = None
    session_id: str | None = None
    cost: CostRecord | None = None
    tags: tuple[str, ...] = ()
    project_id: str | None = None


class RunIndex:
    """All runs in the order in which they began, and the problems of the files."""

    __slots__ = ("_by_session", "problems", "runs")

    def __init__(
        self, runs: Iterable[RecordedRun] = (), *, problems: Iterable[Problem] = ()
    ) -> None:
        self.runs = tuple(runs)
        self.problems = tuple(problems)
        self._by_session: dict[tuple[str, str], list[RecordedRun]] = {}
        for run in self.runs:
            if run.session_id is not None:
                self._by_session.setdefault((run.agent, run.session_id), []).append(run)

    def runs_of(self, agent: str, session_id: str) -> tuple[RecordedRun, ...]:
        """Return the runs of a session."""
        return tuple(self._by_session.get((agent, session_id), ()))

    def tags_of(self, agent: str, session_id: str) -> tuple[str, ...]:
        """Return the distinct tags of a session's runs in order of appearance."""
        runs = self._by_session.get((agent, session_id))
        return tuple(dict.fromkeys(tag for run in runs for tag in run.tags)) if runs else ()

    def tags_by_session(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the unified id of every session with runs, and the tags of these runs."""
        for agent, session_id in self._by_session:
            yield f"{agent}:{session_id}", self.tags_of(agent, session_id)


def read_run_index(host: Host, project_dir: Path | None = None) -> RunIndex:
    """Read the run indexes of the user and of the nearest project, merged by run."""
    merged: dict[str, dict[str, Any]] = {}
    problems: list[Problem] = []
    for path in _index_files(host, project_dir):
        for line in _read_lines(path):
            if isinstance(line, Problem):
                problems.append(line)
            else:
                merged.setdefault(line.run_id, {}).update(line.known_fields())
    runs = [RecordedRun(run_id=run_id, **fields) for run_id, fields in merged.items()]
    return RunIndex(runs, problems=problems)


class _Cost(msgspec.Struct, frozen=True, rename="camel"):
    total_usd: _Amount
    input_tokens: _Count
    output_tokens: _Count
    thinking_tokens: _Count | None = None
    cached_tokens: _Count | None = None


class _Line(msgspec.Struct, frozen=True, rename="camel"):
    """One line of the index. Fields that are null or empty set nothing."""

    v: int
    run_id: str
    agent: str
    timestamp: datetime
    model: str | None = None
    session_id: str | None = None
    cost: _Cost | None = None
    tags: tuple[str, ...] | None = None
    project_id: str | None = None

    def known_fields(self) -> dict[str, Any]:
        """Return the fields of a `RecordedRun` that this line sets."""
        fields = {
            "agent": self.agent,
            "at": to_utc(self.timestamp),
            "model": self.model,
            "session_id": self.session_id,
            "cost": self.cost
            and CostRecord(**msgspec.structs.asdict(self.cost), source="run-index"),
            "tags": self.tags,
            "project_id": self.project_id,
        }
        return {name: value for name, value in fields.items() if value}


class _Versioned(msgspec.Struct, frozen=True):
    v: int


_LINE = msgspec.json.Decoder(_Line)
_VERSIONED = msgspec.json.Decoder(_Versioned)
_UNDECODABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


def _index_files(host: Host, project_dir: Path | None) -> Iterator[Path]:
    """Yield the user's file, then that of the nearest project, which overrides it."""
    yield host.config_dir() / FILE_NAME
    for folder in host.project_folders(project_dir):
        path = folder / FILE_NAME
        if os.access(path, os.F_OK):
            yield path
            return


def _read_lines(path: Path) -> Iterator[_Line | Problem]:
    try:
        with path.open("rb") as stream:
            for number, raw in enumerate(stream, start=1):
                text = raw.strip(_NOISE).removeprefix(_BOM if number == 1 else b"")
                if text:
                    yield _decode(text, ended=raw.endswith(b"\n"), path=path, number=number)
    except FileNotFoundError:
        return
    except OSError as error:
        message, unreadable = os_error_message(path, error)
        yield Problem(code="unreadable", message=message, path=str(unreadable))


def _decode(text: bytes, *, ended: bool, path: Path, number: int) -> _Line | Problem:
    try:
        line = _LINE.decode(text)
    except _UNDECODABLE as error:
        code, message = _describe(text, error, ended=ended)
    else:
        if line.v == VERSION:
            return line
        code, message = _unknown_version(line.v)
    return Problem(code=code, message=message, path=str(path), line=number)


def _describe(text: bytes, error: Exception, *, ended: bool) -> tuple[ProblemCode, str]:
    if not isinstance(error, msgspec.ValidationError):
        return ("bad-line" if ended else "torn-tail"), f"a run is not valid JSON ({error})"
    try:
        version = _VERSIONED.decode(text).v
    except _UNDECODABLE:
        version = VERSION
    if version != VERSION:
        return _unknown_version(version)
    return "bad-record", f"a run has an unexpected shape ({error})"


def _unknown_version(version: int) -> tuple[ProblemCode, str]:
    message = f"a run has format {version}, which this version of amux cannot read"
    return "unknown-format", message
