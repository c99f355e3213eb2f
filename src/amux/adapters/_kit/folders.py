"""Lists directories, and records those that permissions do not allow to list.

An unreadable directory must not look like an empty one, so it becomes a source. Reading that source
fails like reading a file without permission, and is reported in the same way.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISDIR

from amux.adapters._base import SourceRef
from amux.adapters._kit.jsonl import unreadable
from amux.model.problems import Problem


def is_folder(path: Path) -> bool:
    """Return whether a path is a directory, or may be one below an unreadable directory."""
    try:
        return S_ISDIR(path.stat().st_mode)
    except PermissionError:
        return True
    except OSError:
        return False


class Folders:
    """Lists directories and records the unreadable ones."""

    def __init__(self) -> None:
        self.closed: list[Path] = []

    def entries(self, folder: Path | str) -> list[os.DirEntry[str]]:
        """Return the entries of a directory; empty if it is missing or unreadable."""
        try:
            with os.scandir(folder) as found:
                return list(found)
        except PermissionError:
            self.closed.append(Path(folder))
        except OSError:  # it was removed, or is not a directory
            pass
        return []

    def by_name(self, folder: Path | str) -> list[os.DirEntry[str]]:
        """Return the entries of a directory, sorted by name."""
        return sorted(self.entries(folder), key=lambda entry: entry.name)

    def sources(self, agent: str, root: Path, *, group: str = "") -> Iterator[SourceRef]:
        """Yield the unreadable directories as sources; reading them reports the problem."""
        for path in self.closed:
            yield SourceRef(agent=agent, path=path, root=root, group=group, role="names")


class Inside:
    """Lists directories below a root without following a link out of it."""

    def __init__(self, root: Path) -> None:
        self.folders = Folders()
        self.root = root
        self._real_root = root.resolve()

    def entries(self, folder: Path | None) -> dict[str, Path]:
        """Return the paths in a directory by name, sorted; empty for None."""
        return {
            entry.name: Path(entry.path)
            for entry in (() if folder is None else self.folders.by_name(folder))
            if not entry.is_symlink() or leads_into(self._real_root, Path(entry.path))
        }


def leads_into(root: Path, link: Path) -> bool:
    """Return whether a link points into a root whose own links are resolved."""
    try:
        return link.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError):  # it is broken, circular or below an unreadable directory
        return False


def read_closed(source: SourceRef) -> Iterator[Problem]:
    """Yield the problem of a source from `Folders.sources`, if it is still unreadable."""
    try:
        os.scandir(source.path).close()
    except PermissionError as error:
        yield unreadable(source.path, error)
    except OSError:  # it was removed or is not a directory: not a lack of permission
        return
