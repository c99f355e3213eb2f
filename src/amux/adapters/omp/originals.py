"""Determines whether the session that a log was imported from is still in the store of its agent.

The log names the file by an absolute path. Only its part below the folder of the other agent is
used, below the home that holds omp's own folder: the contents of a log must not lead elsewhere.
Nothing but the existence of the file is asked.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from amux.adapters._kit.jsonl import read_records
from amux.adapters._kit.streams import open_stream
from amux.adapters._kit.values import text
from amux.adapters.pi.imports import IMPORT, ForeignSession, foreign_session
from amux.adapters.pi.records import LINES
from amux.model.problems import Problem

_OWN: Final = ".omp"
_FOLDERS: Final = {"claude": ".claude", "codex": ".codex"}
_ARCHIVE: Final = "archived_sessions"  # Codex moves a session there, and may compress it
_SEPARATORS: Final = re.compile(r"[/\\]")
_BEGINNING: Final = 1 << 14
_IMPORTED: Final = re.compile(rb'"id": ?"(?:claude|codex)-')


def has_original(root: Path, session: ForeignSession) -> bool | None:
    """Return whether an imported session still exists; None if its store is not in this home."""
    files = possible_files(root, session)
    return any(map(_is_file, files)) if files else None


def original_files(root: Path, log: Path) -> tuple[Path, ...]:
    """Return the files whose existence decides what a log counts; none for most logs."""
    try:
        with open_stream(log) as stream:
            if _IMPORTED.search(stream.read(_BEGINNING)) is None:
                return ()
    except OSError:
        return ()
    for found in read_records(log, LINES, cut_texts=True):
        if not isinstance(found, Problem) and text(found[1].custom_type) == IMPORT:
            session = foreign_session(found[1].data)
            if session is not None:
                return possible_files(root, session)
    return ()


def possible_files(root: Path, session: ForeignSession) -> tuple[Path, ...]:
    """Return the files in which the other agent may have the session now."""
    folder = _FOLDERS.get(session.agent, "")
    parts = _SEPARATORS.split(session.path)
    if _OWN not in root.parts or folder not in parts:
        return ()
    home = Path(*root.parts[: root.parts.index(_OWN)])
    below = parts[parts.index(folder) + 1 :]
    if not below or any(part in {"", ".", ".."} or "\0" in part for part in below):
        return ()
    path = home.joinpath(folder, *below)
    if session.agent != "codex":
        return (path,)
    moved = home / folder / _ARCHIVE / path.name
    return tuple(each.with_name(path.name + end) for each in (path, moved) for end in ("", ".zst"))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False
