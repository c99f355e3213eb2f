"""Which project a working directory belongs to: the repository that holds it.

The disk decides where it can. From the directory upwards, the first `.git` marks a repository; the
`.git` file of a worktree names the repository it was made from. A directory that is gone or in no
repository is folded by its path alone, where that follows a known pattern of worktrees. Nothing
else is guessed: a directory below another one is a project of its own.

Directories come from sessions and are not to be trusted: only absolute local paths are looked at, a
bounded number of folders up, a bounded number of bytes, and nothing but plain files is opened.
"""

from __future__ import annotations

import os
import re
import stat

UNKNOWN_PROJECT = "unknown"

_MOST_FOLDERS = 64
_MOST_BYTES = 4096
_GITDIR = b"gitdir:"
_PATTERNS = (
    re.compile(r"(?P<repository>.+?)/\.(?:claude/)?worktrees/[^/]+(?:/.*)?"),
    re.compile(r"(?P<repository>.*?[^/])[-.]worktrees/[^/]+(?:/.*)?"),
)
"""Where tools put the worktrees of a repository: inside it, or beside it."""


class Projects:
    """Finds projects; each working directory is looked up once."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, cwd: str | None) -> str:
        """The root of the repository, else the directory itself."""
        if not cwd:
            return UNKNOWN_PROJECT
        project = self._known.get(cwd)
        if project is None:
            project = self._known[cwd] = _find(cwd)
        return project


def _find(cwd: str) -> str:
    place = cwd.rstrip("/") or "/"
    if _exists(place):
        repository = _repository(place)
        if repository is not None:
            return repository
    folded = _fold(place)
    return _repository(folded) or folded


def _fold(place: str) -> str:
    """The repository a worktree was made from, by its path alone."""
    for pattern in _PATTERNS:
        found = pattern.fullmatch(place)
        if found is not None:
            return found["repository"]
    return place


def _repository(place: str) -> str | None:
    """The repository that holds a place, as far as the disk tells."""
    if not _is_local(place):
        return None
    folder = place
    for _ in range(_MOST_FOLDERS):
        mark = f"{folder.rstrip('/')}/.git"
        kind = _kind(mark)
        if kind == stat.S_IFDIR:
            return folder
        if kind == stat.S_IFREG:
            return _main_repository(folder, mark) or folder
        above = os.path.dirname(folder)  # noqa: PTH120 - a path of text, with forward slashes
        if above == folder:
            break
        folder = above
    return None


def _main_repository(folder: str, mark: str) -> str | None:
    """Where a worktree comes from; None: the file marks a repository of its own (a submodule)."""
    told = _read_pointer(mark)
    if told is None:
        return None
    gitdir = os.path.normpath(os.path.join(folder, told)).replace(os.sep, "/")  # noqa: PTH118
    common, _, name = gitdir.rpartition("/worktrees/")
    if not common or "/" in name or "/.git/modules/" in common:
        return None
    above, _, last = common.rpartition("/")
    is_hidden = last.startswith(".")  # `.git`, or a bare repository kept as `.bare`
    return (above or "/") if is_hidden else common


def _read_pointer(mark: str) -> str | None:
    """What a `.git` file points to."""
    try:
        # Whatever lies there by now must not make us wait.
        descriptor = os.open(mark, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            text = os.read(descriptor, _MOST_BYTES)
        finally:
            os.close(descriptor)
    except (OSError, ValueError):
        return None
    line = text.split(b"\n", 1)[0].strip()
    if not line.startswith(_GITDIR):
        return None
    return os.fsdecode(line.removeprefix(_GITDIR).strip()) or None


def _exists(place: str) -> bool:
    return _is_local(place) and _kind(place) is not None


def _is_local(place: str) -> bool:
    """Whether looking there asks this machine alone; `//server/share` would ask another one."""
    is_foreign = place.startswith(("//", "\\\\"))
    return os.path.isabs(place) and not is_foreign  # noqa: PTH117 - a path of text


def _kind(path: str) -> int | None:
    """Whether it is a folder, a file or something else; None: nothing that we can see."""
    try:
        return stat.S_IFMT(os.stat(path).st_mode)  # noqa: PTH116 - a path of text
    except (OSError, ValueError):
        return None
