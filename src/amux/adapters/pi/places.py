"""Where logs lie below a `sessions` folder, told by names alone.

    <folder of a working directory>/<time>_<id>.jsonl            a session
    <folder of a working directory>/<time>_<id>/<task>.jsonl     a sub-agent of it (oh-my-pi)
    <time>_<id>.jsonl                                            a session in a folder of its own
    <id>/*.jsonl                                                 a session, as specified

Links are not followed: none leaves the root.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from amux.adapters._base import SourceRef
from amux.adapters._kit.folders import Folders
from amux.adapters.pi.about import session_in
from amux.adapters.pi.records import LOG

_DEPTH: Final = 6


class Places:
    """Goes through one root of one agent."""

    def __init__(self, agent: str, root: Path) -> None:
        self._blank = SourceRef(agent=agent, path=root, root=root, group=str(root))
        self._root = root
        self._folders = Folders()

    def sources(self) -> Iterator[SourceRef]:
        """All logs."""
        for entry in self._entries(self._root):
            if is_log(entry):
                yield self._session(Path(entry.path))
            elif entry.is_dir(follow_symlinks=False):
                yield from self._folder(Path(entry.path), _DEPTH)
        yield from self._folders.sources(self._blank.agent, self._root, group=self._blank.group)

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        return sorted(self._folders.entries(folder), key=lambda entry: entry.name)

    def _folder(self, folder: Path, depth: int) -> Iterator[SourceRef]:
        parent = session_in(folder.name)
        if parent is not None:
            yield from self._subagents(folder, parent, depth)
            return
        found = self._entries(folder)
        logs = [Path(entry.path) for entry in found if is_log(entry)]
        if _holds_sessions(folder, logs):
            yield from map(self._session, logs)
        elif logs:
            yield self._specified(folder, logs)
        for entry in found:
            if depth and entry.is_dir(follow_symlinks=False):
                yield from self._folder(Path(entry.path), depth - 1)

    def _session(self, path: Path) -> SourceRef:
        session_id = session_in(path.stem) or path.stem
        return self._blank.replace(path=path, session_id=session_id)

    def _specified(self, folder: Path, logs: Sequence[Path]) -> SourceRef:
        """A folder that is a session; where it holds but one file, that file is the source."""
        is_one_file = len(logs) == 1
        return self._blank.replace(
            path=logs[0] if is_one_file else folder,
            session_id=folder.relative_to(self._root).as_posix(),
            beside=() if is_one_file else tuple(logs),
        )

    def _subagents(self, folder: Path, parent: str, depth: int) -> Iterator[SourceRef]:
        for entry in self._entries(folder):
            path = Path(entry.path)
            if is_log(entry):
                yield self._blank.replace(
                    path=path, session_id=path.stem, role="subagent", parent=parent
                )
            elif depth and entry.is_dir(follow_symlinks=False):
                yield from self._subagents(path, parent, depth - 1)


def is_log(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a log, by its name."""
    name = entry.name
    hidden = name.startswith(".")  # left by a writer that was stopped before it could rename
    return name.endswith(LOG) and not hidden and entry.is_file(follow_symlinks=False)


def _holds_sessions(folder: Path, logs: Sequence[Path]) -> bool:
    """Whether each file in a folder is a session, rather than all of them one."""
    return folder.name.startswith("-") or any(session_in(log.stem) for log in logs)
