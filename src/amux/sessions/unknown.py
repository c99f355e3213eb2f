"""Lists what amux does not know on this disk: record types, fields and files, without any content.

The report teaches the project the formats it has not seen. It contains names, JSON types, counts
and orders of magnitude, never a value, and names that look like data are masked. The fields of an
agent are compared if it has a table of known fields (see `adapters._kit.known_fields`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from amux.adapters import BUILTIN, known_fields_of, load_builtin
from amux.adapters._base import Adapter, SourceRef
from amux.adapters._kit.known_fields import DOCUMENT, Fields, KnownFields, decode_object, json_type
from amux.adapters._kit.streams import open_stream
from amux.assembly.assemble import SOURCE_FAILURES
from amux.assembly.session import SourceSession
from amux.errors import ParseError
from amux.model.problems import Problem
from amux.model.reports import UnknownField, UnknownFile, UnknownReport, UnknownType
from amux.reading.facts import read_facts
from amux.sessions.doctor import unknown_files
from amux.sessions.masking import (
    masked_name,
    masked_path,
    masked_version,
    size_bucket,
    words_of,
)
from amux.sessions.service import SessionService

if TYPE_CHECKING:
    import sqlite3

_TYPES: Final = "unknownTypes"
_SQLITE: Final = b"SQLite format 3\0"
_LARGEST_DOCUMENT: Final = 64 << 20
_MOST_NAMES: Final = 500  # a hostile file could have a new name in every line
_NOT_KNOWN: Final = "unknown"
_TABLE: Final = "table:"
_INDEX_PARTS: Final = ("config", "content", "data", "docsize", "idx")
_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])


def report_unknown(service: SessionService, agents: Sequence[str]) -> tuple[UnknownReport, ...]:
    """Return what is unknown of some agents; agents without any file are left out."""
    vocabulary = _vocabulary()
    reports: list[UnknownReport] = []
    for name in agents:
        findings = _Findings(service.registry.require(name), vocabulary)
        for root in service.catalog.roots(name):
            findings.add_root(root)
        if findings.has_files:
            reports.append(findings.report())
    return tuple(reports)


def _vocabulary() -> frozenset[str]:
    """Return the words that the known formats and files of all agents use."""
    words: set[str] = set()
    for name in BUILTIN:
        adapter, known = load_builtin(name), known_fields_of(name)
        for ignored in adapter.info.ignored_files if adapter is not None else ():
            words |= words_of(ignored.pattern)
        for record_type, fields in ({} if known is None else known.seen).items():
            words.update(*map(words_of, (record_type, *fields)))
    return frozenset(words)


class _Findings:
    """Collects what is unknown of one agent."""

    def __init__(self, adapter: Adapter, vocabulary: frozenset[str]) -> None:
        self.has_files = False
        self._adapter = adapter
        self._known = known_fields_of(adapter.info.name)
        self._vocabulary = vocabulary
        known_types = () if self._known is None else self._known.seen
        self._groups = {name.partition("/")[0] for name in known_types if "/" in name}
        self._compared: set[Path] = set()
        self._versions: Counter[str] = Counter()
        self._types: Counter[str] = Counter()
        self._fields: dict[tuple[str, str], Counter[str]] = {}
        self._files: dict[tuple[str, str], Counter[str]] = {}

    def add_root(self, root: Path) -> None:
        """Read all sources below a root, and look at the names of the other files."""
        sources = [source for source in self._adapter.discover(root) if source.has_path]
        for source in sources:
            self.has_files = True
            self._add_facts(root, source)
            if self._known is not None:
                new = set(files_of(source)) - self._compared  # several sources may have one file
                self._compared |= new
                for path in sorted(new):
                    self._compare(path, self._known)
        for relative, size in unknown_files(self._adapter, root, sources):
            self.has_files = True
            self._add_file(root, relative, size, _NOT_KNOWN)

    def _add_facts(self, root: Path, source: SourceRef) -> None:
        parts: list[SourceSession] = []
        problems: list[Problem] = []
        read_facts(self._adapter, source, parts, problems)
        for part in parts:
            if part.facts.version:
                self._versions[masked_version(part.facts.version)] += 1
            types: dict[str, int] = part.facts.raw.get(_TYPES, {})
            for name, number in types.items():
                self._types[self._masked_type(name)] += number
        failed = [problem.code for problem in problems if problem.code in SOURCE_FAILURES]
        if failed and not parts:
            path, size = source.path.relative_to(root).as_posix(), _size(source.path)
            self._add_file(root, path, size, failed[0])

    def _masked_type(self, name: str) -> str:
        return masked_name(name, self._groups)

    def _add_file(self, root: Path, relative: str, size: int, why: str) -> None:
        pattern = masked_path(relative, self._vocabulary, root=root.name)
        self._files.setdefault((pattern, why), Counter())[size_bucket(size)] += 1

    def _compare(self, path: Path, known: KnownFields) -> None:
        """Compare the records of a file with the known ones; problems are reported elsewhere."""
        try:
            for record_type, field, value_type in fields_in(path, known):
                if record_type not in known.seen:
                    if not field and record_type.startswith(_TABLE):
                        self._types[masked_name(record_type)] += 1
                elif field and not known.is_known(record_type, field):
                    key = (self._masked_type(record_type), masked_name(field))
                    if key in self._fields or len(self._fields) < _MOST_NAMES:
                        self._fields.setdefault(key, Counter())[value_type] += 1
        except (OSError, ParseError):
            return

    def report(self) -> UnknownReport:
        """Return everything that was found, sorted by name."""
        return UnknownReport(
            agent=self._adapter.info.name,
            versions=tuple(sorted(self._versions)),
            fields_compared=self._known is not None,
            types=tuple(
                UnknownType(name=name, count=count) for name, count in sorted(self._types.items())
            ),
            fields=tuple(
                UnknownField(
                    record_type=record_type,
                    name=name,
                    json_types=tuple(sorted(types)),
                    count=types.total(),
                )
                for (record_type, name), types in sorted(self._fields.items())
            ),
            files=tuple(
                UnknownFile(
                    pattern=pattern, why=why, sizes=tuple(sorted(sizes)), count=sizes.total()
                )
                for (pattern, why), sizes in sorted(self._files.items())
            ),
        )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def files_of(source: SourceRef) -> Iterator[Path]:
    """Yield the files of a session to be compared: the source, and companions next to it.

    Other files, such as lists of titles, have names of projects and sessions as fields.
    """
    if source.role == "names":
        return
    for path in (source.path, *source.companions):
        if path.parent == source.path.parent and path.is_file():
            yield path


def fields_in(path: Path, known: KnownFields) -> Iterator[tuple[str, str, str]]:
    """Yield the type, the field and the JSON type of each field of each record of a file.

    A record begins with an empty field.
    """
    name = path.name.removesuffix(".zst")
    if name.endswith(".jsonl"):
        yield from _fields_of_lines(path, known)
    elif _begins_with(path, _SQLITE):
        yield from _columns(path)
    elif name.endswith(".json"):
        yield from _fields_of_document(path, known)


def _begins_with(path: Path, start: bytes) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(start)) == start


def _fields_of_lines(path: Path, known: KnownFields) -> Iterator[tuple[str, str, str]]:
    from amux.adapters._kit.jsonl import iter_lines

    with open_stream(path) as stream:
        for line, _ in iter_lines(stream, cut_texts=True):
            yield from _fields_of(decode_object(bytes(line)), known)


def _fields_of(record: Fields, known: KnownFields) -> Iterator[tuple[str, str, str]]:
    record_type = known.type_of(record)
    yield record_type, "", ""
    for field, value_type in known.fields_of(record):
        yield record_type, field, value_type


def _fields_of_document(path: Path, known: KnownFields) -> Iterator[tuple[str, str, str]]:
    if _size(path) > _LARGEST_DOCUMENT:
        return
    root = decode_object(path.read_bytes())
    if not root:
        return
    yield DOCUMENT, "", ""
    for field, value in root.items():
        yield DOCUMENT, field, json_type(value)
    listed = root.get(known.items or "")
    try:
        items = _LIST.decode(listed) if listed is not None else ()
    except (msgspec.DecodeError, UnicodeError):
        return
    for item in items:
        yield from _fields_of(decode_object(item), known)


def _columns(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the columns of every table but those that a full-text index consists of."""
    from amux.adapters._kit.sqlite import read_foreign

    def query(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
        found = connection.execute(
            "SELECT tables.name, columns.name, columns.type FROM sqlite_master AS tables"
            " JOIN pragma_table_info(tables.name) AS columns"
            " WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite_%' ORDER BY 1"
        )
        return [(str(table), str(column), str(kind).lower()) for table, column, kind in found]

    columns = read_foreign(path, query)
    tables = {table for table, _, _ in columns}
    parts = {f"{table}_{part}" for table in tables for part in _INDEX_PARTS}
    for table in sorted(tables - parts):
        yield f"{_TABLE}{table}", "", ""
    for table, column, kind in columns:
        if table not in parts:
            yield f"{_TABLE}{table}", column, masked_name(kind) if kind else "any"
