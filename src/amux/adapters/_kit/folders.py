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

    def sources(self, agent: str, root: Path, *, group: str = "") -> Iterator[SourceRef]:
        """What was refused, for the reader to stumble over."""
        for path in self.closed:
            yield SourceRef(agent=agent, path=path, root=root, group=group, role="names")
