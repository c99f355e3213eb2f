"""Codex: sessions of the Codex CLI.

Files     $CODEX_HOME or ~/.codex: sessions/YYYY/MM/DD/rollout-<time>-<uuid>.jsonl (or .jsonl.zst),
          archived_sessions/, sessions/rollout-<date>-<uuid>.json of the TypeScript CLI, and
          sessions/<id>.jsonl; titles in session_index.jsonl. The databases beside them are caches
          of these files and are not read.
Formats   one document (0.1.x), bare items (to 0.31), envelopes (from 0.32), envelopes with
          ordinals (0.166); evidence: docs/agents/codex.md
Counting  token_usage_record if present, else token_count events whose total has changed
Title     the name given by person or agent, else the first prompt that an event or its kind
          confirms
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from io import SEEK_END
from pathlib import Path
from stat import S_ISLNK
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from amux.adapters._base import (
    AgentInfo,
    Capabilities,
    Checkpoint,
    ExtractedTexts,
    Head,
    IgnoredFiles,
    Item,
    ListFilter,
    Reading,
    Selection,
    SourceRef,
    Want,
    has_bodies,
)
from amux.adapters._kit.command_line import CommandLine
from amux.adapters._kit.fold import MAX_PROBLEMS
from amux.adapters._kit.folders import Folders, is_folder, leads_into
from amux.adapters._kit.jsonl import Buffer, read_records, unreadable
from amux.adapters._kit.streams import DecoderMissingError, open_stream
from amux.adapters._kit.values import parse_time
from amux.adapters.codex.cursor import restore
from amux.adapters.codex.injected import INJECTED_TEXTS
from amux.adapters.codex.lines import LineBatch, Log, LogPart
from amux.adapters.codex.reading import RolloutState, read_rollout, resume_read
from amux.adapters.codex.records import NAME_ENTRY, Line, Record, size
from amux.adapters.codex.rollout import file_name, new_rollout
from amux.host import Host
from amux.launchers import LAUNCHERS
from amux.model.facts import Facts, TitleNote
from amux.model.message import SessionMessage
from amux.model.problems import Problem

if TYPE_CHECKING:
    from amux.adapters._kit.related import Named, RelatedSessions

NAME: Final = "codex"
INFO: Final = AgentInfo(
    name=NAME,
    label="Codex",
    cli_command="codex",
    capabilities=Capabilities(session_persistence="file", can_resume=True, can_fork=True),
    ignored_files=(
        IgnoredFiles("*.sqlite", "a cache or a list of the agent, rebuilt from the rollouts"),
        IgnoredFiles("*.sqlite-*", "a journal of such a database"),
        IgnoredFiles("history.json*", "prompts as they were typed"),
        IgnoredFiles("config.*", "settings"),
        IgnoredFiles("auth.json", "credentials: never opened"),
        IgnoredFiles("instructions.md", "instructions of the user"),
        IgnoredFiles("AGENTS.md", "instructions of the user"),
        IgnoredFiles("version.json", "the agent's update check"),
        IgnoredFiles("log/*", "diagnostics"),
        IgnoredFiles("prompts/*", "prompts of the user"),
        IgnoredFiles("skills/*", "skills of the user"),
        IgnoredFiles("shell_snapshots/*", "shell environments"),
    ),
    evidence="seen: 0.1.2505291658, 0.20.0, 0.42.0, 0.120.0, 0.166.0; docs/agents/codex.md",
    injected_texts=INJECTED_TEXTS,
    revision=6,
    indexable=True,
)

_NAMES_FILE: Final = "session_index.jsonl"


class CodexAdapter:
    """Reads Codex sessions. Stateless."""

    info = INFO
    command = CommandLine(LAUNCHERS["codex"])

    def roots(self, host: Host) -> Sequence[Path]:
        """Return CODEX_HOME, else ~/.codex, without accessing the disk."""
        return [host.path_from("CODEX_HOME") or host.home / ".codex"]

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """Yield rollouts and the file of titles; file names do not show a working directory."""
        del cwd
        inside = _RootFiles(root)
        sessions, archive = (f"{root}{os.sep}{name}" for name in ("sessions", "archived_sessions"))
        for file in _without_compressed_copies(inside.files(sessions)):
            is_log = file.name.startswith("rollout-") and not file.name.endswith(".json")
            if is_log or file.path == f"{sessions}{os.sep}{file.name}":
                yield _source(file, root, archived=False)
        for file in _without_compressed_copies(inside.files(archive)):
            yield _source(file, root, archived=True)
        names = root / _NAMES_FILE
        if inside.holds(names):
            yield SourceRef(agent=NAME, path=names, root=root, group=str(root), role="names")
        yield from inside.folders.sources(NAME, root, group=str(root))

    def read(
        self, source: SourceRef, *, want: Want, only: str | None = None, until: int | None = None
    ) -> Iterator[Item]:
        """Stream a source; a rollout holds one session, so `only` has no effect."""
        del only
        if source.role == "names":
            yield from _read_names(source)
            return
        is_document = source.path.suffix == ".json"
        rollout = new_rollout(source.path, bodies=has_bodies(want))
        if is_document:
            from amux.adapters.codex.legacy_2025 import read_document

            batches: Iterator[LogPart | Problem] = read_document(source.path)
        else:
            batches = _batches(source.path, cut_texts=want != "all")
        yield from read_rollout(_before(batches, until), rollout, archived=source.archived)

    def extract_texts(
        self, source: SourceRef, *, tools: bool, checkpoint: Checkpoint | None = None
    ) -> ExtractedTexts | None:
        """Return the texts of a rollout in the newest format; None for others."""
        from amux.adapters.codex.text_scan import extract_texts

        is_plain = source.role == "session" and source.path.suffix == ".jsonl"
        return extract_texts(source.path, tools=tools, checkpoint=checkpoint) if is_plain else None

    def read_message_at(self, data: bytes, kind: int, *, tools: bool) -> SessionMessage | None:
        """Return one message, decoded from the lines that a scan located."""
        from amux.adapters.codex.text_scan import read_message_at

        return read_message_at(data, kind, tools=tools)

    def resume_read(self, source: SourceRef, *, checkpoint: Checkpoint | None) -> Reading:
        """Read a rollout after `checkpoint`; other files are read as a whole each time."""
        if source.role == "session" and source.path.suffix == ".jsonl":
            try:
                return _read_on(source, checkpoint=checkpoint)
            except OSError:
                pass  # reading the whole file reports the error
        items = list(self.read(source, want="facts"))
        facts = tuple(item for item in items if isinstance(item, Facts))
        problems = () if facts else tuple(item for item in items if isinstance(item, Problem))
        return Reading(facts=facts, problems=problems)

    def can_select(self, source: SourceRef) -> bool:
        """Return whether `select` handles the source; it does not handle unreadable directories."""
        return source.role == "session" or source.name == _NAMES_FILE

    def select(self, sources: Sequence[SourceRef], list_filter: ListFilter) -> Selection | None:
        """Select by the first lines of all rollouts."""
        from amux.adapters.codex.heads import select

        return select(sources, list_filter)

    def read_selected(self, source: SourceRef, *, chosen: Sequence[str]) -> Iterator[Item]:
        """Read the whole rollout: it holds one session."""
        del chosen
        return self.read(source, want="facts")

    def names(self, source: SourceRef) -> Sequence[Named] | None:
        """Return the session id in the file name; None if the source has none."""
        from amux.adapters._kit.related import Named

        return None if source.session_id is None else [Named(source.session_id)]

    def related(self, sources: Sequence[SourceRef], session_id: str) -> RelatedSessions | None:
        """Select by file names and the first lines of some files; None if no name has the id."""
        from amux.adapters.codex.related import SessionSelection

        selection = SessionSelection(sources, session_id)
        return selection if selection.is_known else None


class _RootFiles:
    """Lists files without following a link out of the root."""

    def __init__(self, root: Path) -> None:
        self.folders = Folders()
        self._root = root.resolve()

    def files(self, folder: str) -> Iterator[os.DirEntry[str]]:
        """Yield all files below a folder by name, its own before those of its subfolders."""
        waiting = [folder] if self.holds(Path(folder)) else []
        while waiting:
            entries = sorted(self.folders.entries(waiting.pop()), key=lambda entry: entry.name)
            inner: list[str] = []
            for entry in entries:
                if entry.is_symlink():
                    link = Path(entry.path)
                    if leads_into(self._root, link) and not is_folder(link):
                        yield entry
                elif entry.is_dir():
                    inner.append(entry.path)
                else:
                    yield entry
            waiting += reversed(inner)

    def holds(self, path: Path) -> bool:
        """Return whether a path exists and, with links resolved, is inside the root."""
        try:
            mode = path.lstat().st_mode
        except PermissionError as error:
            self.folders.closed.append(Path(error.filename))
            return False
        except OSError:
            return False
        return not S_ISLNK(mode) or leads_into(self._root, path)


def _without_compressed_copies(files: Iterator[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
    """Yield session files; of a log and its compressed copy only the log, which is current."""
    previous = ""
    for file in files:  # sorted: x.jsonl immediately precedes x.jsonl.zst
        if file.name.endswith((".jsonl", ".jsonl.zst", ".json")):
            if file.path != f"{previous}.zst":
                yield file
            previous = file.path


def _source(file: os.DirEntry[str], root: Path, *, archived: bool) -> SourceRef:
    return SourceRef(
        agent=NAME,
        path=file.path,
        root=root,
        session_id=file_name(file.name).thread_id,
        group=str(root),
        archived=archived,
    )


def _batches(path: Path, *, cut_texts: bool) -> Iterator[LogPart | Problem]:
    """Yield the lines of a plain or compressed log."""
    try:
        with open_stream(path) as stream:
            log = Log(stream, str(path), to_record=_record, cut_texts=cut_texts)
            yield from log.whole_lines()
            yield from log.last_line()
    except DecoderMissingError as error:
        yield Problem(code="decoder-missing", message=str(error), path=str(path))
    except OSError as error:
        yield unreadable(path, error)


def _read_on(source: SourceRef, *, checkpoint: Checkpoint | None) -> Reading:
    path = source.path
    with path.open("rb", buffering=0) as raw:
        stream = cast("BinaryIO", raw)
        rollout, lines, offset = new_rollout(path, bodies=False), 0, 0
        if checkpoint is not None and checkpoint.offset <= stream.seek(0, SEEK_END):
            state = restore(checkpoint.state, RolloutState)
            if state is not None:
                rollout, lines, offset = state.rollout, state.lines, checkpoint.offset
        stream.seek(offset)
        log = Log(stream, str(path), to_record=_record, cut_texts=True, lines=lines, offset=offset)
        return resume_read(log, rollout, archived=source.archived)


def _record(number: int, line: Line, raw: Buffer) -> Record:
    """Convert a line to the newest format."""
    if not size(line.payload):
        from amux.adapters.codex.legacy_2025 import bare_record

        return bare_record(number, line, raw)
    return Record(
        key=number if line.ordinal is None else line.ordinal,
        line=number,
        kind=line.type or "unknown",
        payload=line.payload,
        at=parse_time(line.timestamp),
        numbered=line.ordinal is not None,
        raw=raw,
    )


def _before(batches: Iterator[LogPart | Problem], until: int | None) -> Iterator[LogPart | Problem]:
    """Yield everything before the first line whose key is at least `until`."""
    if until is None:
        yield from batches
        return
    for batch in batches:
        if isinstance(batch, LineBatch):
            part = batch.before(until)
            yield part
            if len(part.entries) < len(batch.entries):
                return
        elif isinstance(batch, Record) and batch.key >= until:
            return
        else:
            yield batch


def _read_names(source: SourceRef) -> Iterator[Item]:
    """Yield the last title of each session; renaming appends a line."""
    session_id = source.path.stem
    yield Head(session_id=session_id)
    names: dict[str, str] = {}
    problems: list[Problem] = []
    for found in read_records(source.path, NAME_ENTRY):
        if isinstance(found, Problem):
            problems.append(found)
            yield found
            continue
        _, entry, _ = found
        if entry.thread_name:
            names[entry.id] = entry.thread_name
    yield Facts(
        session_id=session_id,
        addressable=False,
        attributed=False,
        notes=tuple(TitleNote(text=text, session_id=id) for id, text in names.items()),
        problems=tuple(problems[:MAX_PROBLEMS]),
        problem_count=len(problems),
    )


ADAPTER: Final = CodexAdapter()
