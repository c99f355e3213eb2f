"""Map a working directory to its project: the repository that contains it.

The file system is asked first. The nearest directory upwards with a `.git` is a repository; the
`.git` file of a worktree names the main repository. For a directory that is missing or in no
repository, the path alone decides if it follows a common pattern of worktrees. Nothing else is
guessed: a directory below another one is a project of its own.

The directories come from sessions and are not trusted: only absolute local paths are examined, the
number of parent directories and of bytes is bounded, and only regular files are opened.
"""

from __future__ import annotations

import os
import re
import stat

UNKNOWN_PROJECT = "unknown"

_MAX_FOLDERS = 64
_MAX_BYTES = 4096
_GITDIR = b"gitdir:"
_PATTERNS = (
    re.compile(r"(?P<repository>.+?)/\.(?:claude/)?worktrees/[^/]+(?:/.*)?"),
    re.compile(r"(?P<repository>.*?[^/])[-.]worktrees/[^/]+(?:/.*)?"),
)
"""Paths at which tools create the worktrees of a repository: inside it, or beside it."""


class Projects:
    """Finds projects; each working directory is examined once."""

    def __init__(self) -> None:
        self._projects: dict[str, str] = {}

    def of(self, cwd: str | None) -> str:
        """Return the root of the repository, or the directory itself if there is none."""
        if not cwd:
            return UNKNOWN_PROJECT
        if cwd not in self._projects:
            self._projects[cwd] = _find(cwd)
        return self._projects[cwd]


def _find(cwd: str) -> str:
    path = cwd.rstrip("/") or "/"
    if _is_local(path) and _file_type(path) is not None:
        repository = _repository(path)
        if repository is not None:
            return repository
    matches = (pattern.fullmatch(path) for pattern in _PATTERNS)
    main = next((match["repository"] for match in matches if match is not None), path)
    return _repository(main) or main


def _repository(path: str) -> str | None:
    """Return the repository that contains a path; None if the file system shows none."""
    if not _is_local(path):
        return None
    folder = path
    for _ in range(_MAX_FOLDERS):
        git = f"{folder.rstrip('/')}/.git"
        file_type = _file_type(git)
        if file_type == stat.S_IFDIR:
            return folder
        if file_type == stat.S_IFREG:
            return _main_repository(folder, git) or folder
        above = os.path.dirname(folder)  # noqa: PTH120 - a string with forward slashes
        if above == folder:
            break
        folder = above
    return None


def _main_repository(folder: str, git_file: str) -> str | None:
    """Return the main repository of a worktree; None for a repository of its own (a submodule)."""
    target = _read_git_file(git_file)
    if target is None:
        return None
    gitdir = os.path.normpath(os.path.join(folder, target)).replace(os.sep, "/")  # noqa: PTH118
    common, _, name = gitdir.rpartition("/worktrees/")
    if not common or "/" in name or "/.git/modules/" in common:
        return None
    above, _, last = common.rpartition("/")
    is_hidden = last.startswith(".")  # `.git`, or a bare repository in `.bare`
    return (above or "/") if is_hidden else common


def _read_git_file(path: str) -> str | None:
    """Return the directory that a `.git` file names; None if it names none."""
    try:
        # Should the file have been replaced by a pipe, opening it must not block.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            text = os.read(descriptor, _MAX_BYTES)
        finally:
            os.close(descriptor)
    except (OSError, ValueError):
        return None
    line = text.split(b"\n", 1)[0].strip()
    if not line.startswith(_GITDIR):
        return None
    return os.fsdecode(line.removeprefix(_GITDIR).strip()) or None


def _is_local(path: str) -> bool:
    """Return whether a path is on this machine; `//server/share` would contact another one."""
    is_remote = path.startswith(("//", "\\\\"))
    return os.path.isabs(path) and not is_remote  # noqa: PTH117 - a path as a string


def _file_type(path: str) -> int | None:
    """Return the file type bits of a path; None if it is missing or inaccessible."""
    try:
        return stat.S_IFMT(os.stat(path).st_mode)  # noqa: PTH116 - a path as a string
    except (OSError, ValueError):
        return None
