"""Claude Code, and the Claude Agent SDK, which writes the same files.

Files       $CLAUDE_CONFIG_DIR or ~/.claude: projects/<encoded cwd>/<session id>.jsonl
Sub-agents  inline (to 2.0.1x), agent-<id>.jsonl beside (2.0.7x), <id>/subagents/agent-<id>.jsonl
Counting    one call per API message id; of its lines the one with the most output tokens
Copies      resumes (to 1.0.11x) and forks repeat history: calls keep their message id as key
Title       custom title, else the model's, else a summary line of any file, else the first prompt

Evidence and gaps are documented in docs/agents/claude.md. This module finds the sources.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from amux.adapters._base import (
    AgentInfo,
    Capabilities,
    Checkpoint,
    ExtractedTexts,
    IgnoredFiles,
    Item,
    ListFilter,
    Reading,
    Retention,
    Selection,
    SourceRef,
    Want,
)
from amux.adapters._kit.command_line import CommandLine
from amux.adapters._kit.folders import Folders
from amux.adapters._kit.jsonl import unreadable
from amux.adapters._kit.streams import open_stream
from amux.adapters.claude.injected import INJECTED_TEXTS
from amux.adapters.claude.reader import TranscriptReader
from amux.adapters.claude.records import text_of
from amux.adapters.claude.text_scan import extract_texts, read_message_at
from amux.adapters.claude.transcript import AGENT_PREFIX, own_id
from amux.host import Host
from amux.launchers import LAUNCHERS
from amux.model.facts import Facts, TitleNote
from amux.model.message import SessionMessage
from amux.model.problems import Problem

if TYPE_CHECKING:
    from amux.adapters._kit.related import Named, RelatedSessions

NAME: Final = "claude"
TITLE_FILE: Final = "custom-title.json"
NAME_LENGTH: Final = 200
"""Longer encoded names are truncated to this length and end in a hash."""

CLEANUP_DAYS: Final = 30
"""The default of `cleanupPeriodDays` according to the documentation of Claude Code."""

_LOG: Final = ".jsonl"
_TITLE_BYTES: Final = 1 << 20
_DEPTH: Final = 6
_LAST_OF_ONE_UNIT: Final = "\uffff"
_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9]")

INFO: Final = AgentInfo(
    name=NAME,
    label="Claude Code",
    cli_command="claude",
    capabilities=Capabilities(session_persistence="file", can_resume=True, can_fork=True),
    ignored_files=(
        IgnoredFiles("*/sessions-index.json", "a stale index of older versions"),
        IgnoredFiles("*/*/resume-head.jsonl", "a cache of the agent"),
        IgnoredFiles("*/*/subagents/*.meta.json", "what a sub-agent was started for"),
        IgnoredFiles("*/*/*", "working files of a session"),
        IgnoredFiles("*/memory/*", "the agent's notes about the project"),
    ),
    revision=7,
    evidence="seen: 1.0.3, 1.0.59, 2.0.14, 2.0.77, 2.1.50, 2.1.325, claude-agent-sdk 0.2.182",
    indexable=True,
    injected_texts=INJECTED_TEXTS,
)


class _Settings(msgspec.Struct):
    cleanup_period_days: float | None = msgspec.field(default=None, name="cleanupPeriodDays")


class ClaudeAdapter:
    """Reads the transcripts of Claude Code. Stateless."""

    info = INFO
    command = CommandLine(LAUNCHERS["claude"])

    def roots(self, host: Host) -> Sequence[Path]:
        """Return `projects` below each configured directory; CLAUDE_CONFIG_DIR may list several."""
        named = [part.strip() for part in host.env.get("CLAUDE_CONFIG_DIR", "").split(",")]
        homes = [host.expand(part) for part in named if part] or [host.home / ".claude"]
        return list(dict.fromkeys(home / "projects" for home in homes))

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """Yield transcripts, sub-agents and title files. Symbolic links are not followed."""
        wanted = None if cwd is None else FolderMatch(cwd)
        folders = Folders()
        for folder in folders.entries(root):
            if folder.is_dir(follow_symlinks=False) and (wanted is None or wanted(folder.name)):
                for entry in folders.entries(folder.path):
                    if entry.is_dir(follow_symlinks=False):
                        yield from _session_folder(root, folder.name, entry, folders)
                    elif _is_log(entry):
                        yield _transcript(root, entry, group=folder.name)
        yield from folders.sources(NAME, root)

    def read(
        self,
        source: SourceRef,
        *,
        want: Want,
        only: str | None = None,
        until: int | None = None,  # noqa: ARG002 - Claude Code copies history
    ) -> Iterator[Item]:
        """Stream one file."""
        if source.role == "names":
            return _read_title(source)
        return TranscriptReader(source, want=want, only=only).items()

    def extract_texts(
        self, source: SourceRef, *, tools: bool, checkpoint: Checkpoint | None = None
    ) -> ExtractedTexts | None:
        """Return the texts of a transcript; None if it must be read message by message."""
        if source.role == "names":
            return None
        is_agent = source.role == "subagent"
        return extract_texts(
            source.path, own_id(source), is_agent=is_agent, tools=tools, checkpoint=checkpoint
        )

    def read_message_at(self, data: bytes, kind: int, *, tools: bool) -> SessionMessage | None:
        """Return one message, decoded from the lines that a scan located."""
        return read_message_at(data, kind, tools=tools)

    def resume_read(self, source: SourceRef, *, checkpoint: Checkpoint | None) -> Reading:
        """Return the facts of a file, reading only the lines after `checkpoint`."""
        if source.role == "names":
            items = list(_read_title(source))
            return Reading(
                facts=tuple(item for item in items if isinstance(item, Facts)),
                problems=tuple(item for item in items if isinstance(item, Problem)),
            )
        return TranscriptReader(source, want="facts").resume_read(checkpoint)

    def can_select(self, source: SourceRef) -> bool:
        """Return whether `select` handles the source; it does not handle unreadable directories."""
        return source.location.endswith(_LOG) or source.name == TITLE_FILE

    def select(self, sources: Sequence[SourceRef], list_filter: ListFilter) -> Selection:
        """Select by the heads of all transcripts and by what affects those that may be shown."""
        from amux.adapters.claude.related import select

        return select(sources, list_filter)

    def read_selected(self, source: SourceRef, *, chosen: Sequence[str]) -> Iterator[Item]:
        """Read the whole file: an inline sidechain is part of the cost of its session."""
        del chosen
        return self.read(source, want="facts")

    def names(self, source: SourceRef) -> Sequence[Named] | None:
        """Return the session id in the file name; None if the source has none."""
        from amux.adapters._kit.related import Named

        return None if source.session_id is None else [Named(source.session_id)]

    def related(self, sources: Sequence[SourceRef], session_id: str) -> RelatedSessions | None:
        """Select by the heads of the project; None if no file name contains the id."""
        from amux.adapters.claude.related import SessionSelection

        selection = SessionSelection(sources, session_id)
        return selection if selection.is_known else None

    def retention(self, root: Path) -> Retention:
        """Return after how many days without change Claude Code deletes a transcript."""
        settings = root.parent / "settings.json"
        try:
            days = msgspec.json.decode(settings.read_bytes(), type=_Settings).cleanup_period_days
        except (OSError, msgspec.DecodeError, UnicodeError):
            days = None
        if days is None:
            return Retention(days=CLEANUP_DAYS, reason="the default of `cleanupPeriodDays`")
        return Retention(days=days, reason=f"`cleanupPeriodDays` in {settings}")


def encode_cwd(cwd: str) -> str:
    """Return the folder name of a working directory: only ASCII letters and digits are kept.

    Each other UTF-16 unit becomes a dash, so a character beyond the basic plane gives two dashes.
    """
    return _NOT_PLAIN.sub(lambda found: "--" if found[0] > _LAST_OF_ONE_UNIT else "-", cwd)


class FolderMatch:
    """Matches project folders that may belong to a working directory; their lines decide."""

    def __init__(self, cwd: str) -> None:
        plain = cwd.rstrip("/\\") or cwd
        spellings = {plain, unicodedata.normalize("NFC", plain)}
        by_point = {_NOT_PLAIN.sub("-", text) for text in spellings}  # as the Python SDK does
        names = {encode_cwd(text) for text in spellings} | by_point
        self._names = frozenset(names)
        self._cut = tuple(f"{name[:NAME_LENGTH]}-" for name in names if len(name) > NAME_LENGTH)

    def __call__(self, folder: str) -> bool:
        """Return whether the name matches; long names by prefix, as their hash differs by build."""
        return folder in self._names or (bool(self._cut) and folder.startswith(self._cut))


Entry = os.DirEntry[str]


def _session_folder(root: Path, group: str, folder: Entry, folders: Folders) -> Iterator[SourceRef]:
    """Yield the title file and the sub-agents of a session (newer versions)."""
    for entry in folders.entries(folder.path):
        if entry.name == TITLE_FILE and entry.is_file(follow_symlinks=False):
            yield SourceRef(
                agent=NAME,
                path=entry.path,
                root=root,
                session_id=folder.name,
                group=group,
                role="names",
            )
        elif entry.name == "subagents" and entry.is_dir(follow_symlinks=False):
            for file in _agent_files(entry, folders, _DEPTH):
                yield _transcript(root, file, group=group, parent=folder.name)


def _agent_files(folder: Entry, folders: Folders, depth: int) -> Iterator[Entry]:
    for entry in folders.entries(folder.path):
        if entry.is_dir(follow_symlinks=False):
            if depth > 0:
                yield from _agent_files(entry, folders, depth - 1)
        elif entry.name.startswith(AGENT_PREFIX) and _is_log(entry):
            yield entry


def _is_log(entry: Entry) -> bool:
    name = entry.name
    return name.endswith(_LOG) and name != _LOG and entry.is_file(follow_symlinks=False)


def _transcript(root: Path, file: Entry, *, group: str, parent: str | None = None) -> SourceRef:
    stem = file.name.removesuffix(_LOG)
    session_id = stem.removeprefix(AGENT_PREFIX)
    return SourceRef(
        agent=NAME,
        path=file.path,
        root=root,
        session_id=session_id,
        group=group,
        role="session" if session_id == stem else "subagent",
        parent=parent,
    )


def _read_title(source: SourceRef) -> Iterator[Item]:
    """Yield facts that hold only the title of a session."""
    try:
        with open_stream(source.path) as stream:
            data = stream.read(_TITLE_BYTES)
        title = msgspec.json.decode(data, type=dict[str, Any]).get("customTitle")
    except OSError as error:
        yield unreadable(source.path, error)
        return
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        message = f"a title file is not valid JSON ({error})"
        yield Problem(code="bad-record", message=message, path=str(source.path))
        return
    session_id = source.session_id or source.path.parent.name
    text = text_of(title)
    notes = () if text is None else (TitleNote(text=text, session_id=session_id),)
    yield Facts(session_id=session_id, addressable=False, attributed=False, notes=notes)


ADAPTER: Final = ClaudeAdapter()
