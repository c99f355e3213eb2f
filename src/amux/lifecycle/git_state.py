"""The commit and the branch of a directory, read from the files of its Git repository.

No program is started: reading two small files is enough, and it works where Git is not installed.
Nothing is read unless it is asked for.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_DEEPEST: Final = 5  # a reference may name another one
_MOST_BYTES: Final = 4096  # of a file with one reference


class GitState(msgspec.Struct, frozen=True, kw_only=True):
    """The checked out commit and branch. A branch without a commit is new, and None is unknown."""

    sha: str | None = None
    branch: str | None = None


def git_state(directory: str | Path) -> GitState | None:
    """Return the commit and the branch of a directory; None if it is in no repository."""
    folder = _git_folder(Path(directory))
    if folder is None:
        return None
    head = _first_line(folder / "HEAD")
    if head is None:
        return None
    if _COMMIT.fullmatch(head):
        return GitState(sha=head)
    name = _reference_in(head)
    if name is None:
        return GitState()
    branch = name.removeprefix("refs/heads/") if name.startswith("refs/heads/") else None
    return GitState(sha=_commit_of(folder, name), branch=branch)


def _git_folder(directory: Path) -> Path | None:
    """Return the folder with the HEAD of a directory: `.git`, or what a file of that name names."""
    for folder in (directory, *directory.parents):
        marker = folder / ".git"
        if marker.is_dir():
            return marker
        line = _first_line(marker)
        if line is not None and line.startswith("gitdir: "):
            return folder / line.removeprefix("gitdir: ")
    return None


def _commit_of(folder: Path, name: str) -> str | None:
    common = folder / (_first_line(folder / "commondir") or ".")  # of a linked worktree
    for _ in range(_DEEPEST):
        value = _first_line(folder / name) or _first_line(common / name)
        if value is None:
            return _packed_commit(common / "packed-refs", name)
        if _COMMIT.fullmatch(value):
            return value
        following = _reference_in(value)
        if following is None:
            return None
        name = following
    return None


def _packed_commit(path: Path, name: str) -> str | None:
    try:
        with _open_regular(path) as file:
            while line := file.readline(_MOST_BYTES):
                text = line.decode("utf-8", "replace").rstrip("\n")
                commit, _, packed = text.partition(" ")
                if packed == name and _COMMIT.fullmatch(commit):
                    return commit
    except OSError:
        pass
    return None


def _reference_in(line: str) -> str | None:
    """Return the reference that a line names; None if it is not a name below `refs`."""
    name = line.removeprefix("ref: ")
    is_safe = name != line and name.startswith("refs/") and ".." not in name
    return name if is_safe else None


def _first_line(path: Path) -> str | None:
    """Return the first line of a small file; None if there is none."""
    try:
        with _open_regular(path) as file:
            text = file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    return text.partition("\n")[0].strip()


def _open_regular(path: Path) -> BinaryIO:
    """Open a file; raise `OSError` for anything else. Reading from a pipe would never end."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"`{path}` is no regular file")
    return open(handle, "rb")  # noqa: PTH123 - a descriptor
