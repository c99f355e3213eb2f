"""Where sessions lie below OpenClaw's state folder, told by names alone.

    agents/<agent>/sessions/<id>.jsonl                     a session (to 2026.6)
    agents/<agent>/sessions/<id>.jsonl.<why>.<time>        a session that was deleted or reset
    agents/<agent>/sessions/<id>.checkpoint.<uuid>.jsonl   a copy from before a compaction
    agents/<agent>/sessions/sessions.json                  names of sessions
    agents/<agent>/agent/openclaw-agent.sqlite             all sessions (from 2026.9)
    sessions/<channel>/<id>.json                           a session, as specified

Links are not followed: none leaves the root.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from amux.adapters._base import SourceRef
from amux.adapters._kit.folders import Folders

DATABASE: Final = "openclaw-agent.sqlite"
NAMES: Final = "sessions.json"

_CHECKPOINT: Final = re.compile(r"(.+)\.checkpoint\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ARCHIVE: Final = re.compile(
    r"(?P<id>.+?)(?:\.jsonl\.(?P<why>deleted|reset|bak|full\.bak)(?:\..+)?|\.full\.bak)"
)
_TRACE: Final = ".trajectory"


class Places:
    """Goes through one state folder."""

    def __init__(self, agent: str, root: Path) -> None:
        self._root = root
        self._blank = SourceRef(agent=agent, path=root, root=root, group=str(root))
        self._folders = Folders()

    def sources(self) -> Iterator[SourceRef]:
        """All logs, databases, documents and lists of names."""
        for folder in self._below(self._root / "agents", folders=True):
            for path in self._below(folder / "sessions"):
                yield from self._log(path)
            for path in self._below(folder / "agent"):
                if path.name == DATABASE:
                    yield self._source(path)
        for channel in self._below(self._root / "sessions", folders=True):
            for path in self._below(channel):
                if path.suffix == ".json":
                    yield self._source(path, session_id=path.stem)
        yield from self._folders.sources(self._blank.agent, self._root, group=self._blank.group)

    def _below(self, folder: Path, *, folders: bool = False) -> list[Path]:
        """The files in a folder, or the folders in it."""
        return sorted(
            Path(entry.path)
            for entry in self._folders.entries(folder)
            if (entry.is_dir if folders else entry.is_file)(follow_symlinks=False)
        )

    def _log(self, path: Path) -> Iterator[SourceRef]:
        name = path.name.removesuffix(".zst")
        if name == NAMES:
            yield self._source(path, role="names")
        elif _TRACE in name:
            return
        elif name.endswith(".jsonl"):
            copy = _CHECKPOINT.fullmatch(name.removesuffix(".jsonl"))
            session_id = name.removesuffix(".jsonl") if copy is None else copy[1]
            yield self._source(path, session_id=session_id, fallback=copy is not None)
        elif (archive := _ARCHIVE.fullmatch(name)) is not None:
            copied = archive["why"] not in {"deleted", "reset"}
            yield self._source(path, session_id=archive["id"], archived=True, fallback=copied)

    def _source(self, path: Path, **known: object) -> SourceRef:
        return self._blank.replace(path=path, **known)


def agent_in(source: SourceRef) -> str:
    """The folder an OpenClaw agent, or a channel, has for itself."""
    parts = source.path.relative_to(source.root).parts
    return parts[1] if len(parts) > 1 else ""


def is_document(source: SourceRef) -> bool:
    """Whether a source is a document of a channel."""
    return source.path.relative_to(source.root).parts[0] == "sessions"
