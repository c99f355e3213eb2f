"""The run index: the runs that were started, with their sessions, tags and costs.

The file holds one JSON object per line, written at the start of a run and again at its end. Lines
with the same `runId` are merged field by field; a later line overrides an earlier one. A killed run
has only its first line and still counts. The index is read from the configuration directory and
from the nearest project directory; a missing file means no runs. Unusable lines become problems,
never exceptions.

Only runs write to the index of the user: whole lines, one writer at a time, under the lock of the
file. Readers take no lock.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec

from amux.durable import BINARY, PRIVATE_FILE, lock, make_private_folder
from amux.errors import ConfigError
from amux.host import Host, os_error_message
from amux.model.base import Model
from amux.model.cost import CostRecord
from amux.model.problems import Problem, ProblemCode
from amux.model.when import to_utc

FILE_NAME = "run-index.jsonl"
VERSION = 1
_BOM = b"\xef\xbb\xbf"
_NOISE = b" \t\r\n\x00"
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ULID_LENGTH = 26
_RANDOM_BITS = 80

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


RunIndexEntry = RecordedRun
"""The name of a recorded run in the specification; as an entry, one line of the index."""


class RunIndex:
    """All runs in the order in which they began, and the problems of the files.

    `path` is the file of the user, to which `append` adds a line.
    """

    __slots__ = ("_by_session", "path", "problems", "runs")

    def __init__(
        self,
        runs: Iterable[RecordedRun] = (),
        *,
        problems: Iterable[Problem] = (),
        path: Path | None = None,
    ) -> None:
        self.path = path
        self.runs = tuple(runs)
        self.problems = tuple(problems)
        self._by_session: dict[tuple[str, str], list[RecordedRun]] = {}
        for run in self.runs:
            if run.session_id is not None:
                self._by_session.setdefault((run.agent, run.session_id), []).append(run)

    def read(
        self, *, since: datetime | None = None, until: datetime | None = None
    ) -> Iterator[RecordedRun]:
        """Yield the runs whose last line is not before `since` and not after `until`."""
        for run in self.runs:
            if (since is None or run.at >= to_utc(since)) and (
                until is None or run.at <= to_utc(until)
            ):
                yield run

    def append(self, entry: RecordedRun) -> None:
        """Add a line to the file; this object stays as it was read.

        Raises:
            ConfigError: The file cannot be written.
        """
        if self.path is None:
            raise ConfigError("this run index has no file")
        append_run(self.path, entry)

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
    return RunIndex(runs, problems=problems, path=index_file(host))


def index_file(host: Host) -> Path:
    """Return the file to which runs of this host are added."""
    return host.config_dir() / FILE_NAME


def new_run_id(now: datetime) -> str:
    """Return a ULID: 48 bits of the time in milliseconds and 80 random bits, in base 32."""
    random = int.from_bytes(os.urandom(_RANDOM_BITS // 8))
    number = int(now.timestamp() * 1000) << _RANDOM_BITS | random
    digits = (_CROCKFORD[number >> 5 * power & 31] for power in reversed(range(_ULID_LENGTH)))
    return "".join(digits)


def append_run(path: Path, entry: RecordedRun) -> None:
    """Add one line to a run index, creating the file for the owner alone.

    Raises:
        ConfigError: The file cannot be written.
    """
    line = msgspec.json.encode(_as_line(entry)) + b"\n"
    try:
        make_private_folder(path.parent)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | BINARY
        descriptor = os.open(path, flags, PRIVATE_FILE)
        try:
            lock(descriptor)
            if not _ends_with_line(descriptor):
                line = b"\n" + line  # a writer was killed within its line
            _write_whole(descriptor, line)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ConfigError(
            f"the run index `{path}` cannot be written: {error.strerror}",
            hint="make it writable, or choose another directory with `AGENT_MUX_CONFIG_DIR`",
        ) from error


def _write_whole(descriptor: int, line: bytes) -> None:
    """Write a line; if the disk is full, remove the part that was written and raise."""
    size = os.fstat(descriptor).st_size
    try:
        written = os.write(descriptor, line)
        while written < len(line):
            written += os.write(descriptor, line[written:])
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def _ends_with_line(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    if size == 0:
        return True
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1) == b"\n"


def _as_line(entry: RecordedRun) -> dict[str, Any]:
    """Return the JSON object of a line: known fields only, the time in UTC."""
    cost = entry.cost
    at = to_utc(entry.at).replace(tzinfo=None).isoformat(timespec="milliseconds")
    fields: dict[str, Any] = {
        "v": VERSION,
        "runId": entry.run_id,
        "agent": entry.agent,
        "model": entry.model,
        "sessionId": entry.session_id,
        "timestamp": f"{at}Z",
        "cost": cost
        and _Cost(
            total_usd=cost.total_usd,
            input_tokens=cost.input_tokens,
            output_tokens=cost.output_tokens,
            thinking_tokens=cost.thinking_tokens,
            cached_tokens=cost.cached_tokens,
        ),
        "tags": list(entry.tags),
        "projectId": entry.project_id,
    }
    return {name: value for name, value in fields.items() if value is not None}


class _Cost(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
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
    yield index_file(host)
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
