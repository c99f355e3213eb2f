"""Looking into folders: what lies there, and which of them are closed to us.

A folder that cannot be listed must not look like an empty one, so it is named as a source. Reading
it fails like reading a closed file does, and is reported like that.
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
    """Whether there is a folder, or something behind a closed door that could be one."""
    try:
        return S_ISDIR(path.stat().st_mode)
    except PermissionError:
        return True
    except OSError:
        return False


class Folders:
    """Lists folders and remembers what was refused."""

    def __init__(self) -> None:
        self.closed: list[Path] = []

    def entries(self, folder: Path | str) -> list[os.DirEntry[str]]:
        """The entries of a folder; one that is missing or closed has none."""
        try:
            with os.scandir(folder) as found:
                return list(found)
        except PermissionError:
            self.closed.append(Path(folder))
        except OSError:  # it went away, or is no folder any more
            pass
        return []

    def by_name(self, folder: Path | str) -> list[os.DirEntry[str]]:
        """The same in the order of names."""
        return sorted(self.entries(folder), key=lambda entry: entry.name)

    def sources(self, agent: str, root: Path, *, group: str = "") -> Iterator[SourceRef]:
        """What was refused, for the reader to stumble over."""
        for path in self.closed:
            yield SourceRef(agent=agent, path=path, root=root, group=group, role="names")


class Inside:
    """Lists folders below a root without following a link out of it."""

    def __init__(self, root: Path) -> None:
        self.folders = Folders()
        self.root = root
        self._real_root = root.resolve()

    def entries(self, folder: Path | None) -> dict[str, Path]:
        """What lies in a folder, in the order of names; None: there is no folder."""
        return {
            entry.name: Path(entry.path)
            for entry in (() if folder is None else self.folders.by_name(folder))
            if not entry.is_symlink() or leads_into(self._real_root, Path(entry.path))
        }


def leads_into(root: Path, link: Path) -> bool:
    """Whether a link leads to something in a root whose own links are resolved."""
    try:
        return link.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError):  # it leads nowhere, in a circle or behind a closed door
        return False


def read_closed(source: SourceRef) -> Iterator[Problem]:
    """What a source of `Folders.sources` tells: that the folder is closed, if it still is."""
    try:
        os.scandir(source.path).close()
    except PermissionError as error:
        yield unreadable(source.path, error)
    except OSError:  # it went away, or is no folder: not for want of permission
        return
