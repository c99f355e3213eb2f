"""What Pi and oh-my-pi have in common as agents: the same folders, the same logs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from amux.adapters._base import AgentInfo, Item, SourceRef, Want
from amux.adapters._kit.jsonl import unreadable

if TYPE_CHECKING:
    from amux.adapters.pi.about import Writer
    from amux.adapters.pi.log import Origin

_LOG: Final = ".jsonl"


class TreeAdapter:
    """Finds and reads logs below a `sessions` folder. Stateless."""

    info: AgentInfo
    writer: Writer
    home_folder: str  # the agent's own folder in a home; elsewhere it may share one

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """All logs below a root: a fork may lie in another folder than what it copied."""
        from amux.adapters.pi.places import Places

        del cwd
        return Places(self.info.name, root).sources()

    def read(
        self,
        source: SourceRef,
        *,
        want: Want,
        only: str | None = None,  # noqa: ARG002 - a log holds one session
        until: int | None = None,  # noqa: ARG002 - history is copied here, never referred to
    ) -> Iterator[Item]:
        """Read one session."""
        from amux.adapters.pi.reader import FileLines, read_log

        try:
            paths = _logs(source)
        except OSError as error:
            yield unreadable(source.path, error)
            return
        is_at_home = self.home_folder in source.root.parts
        yield from read_log(
            FileLines(paths),
            _origin(source),
            want=want,
            blobs=source.root.parent / "blobs",
            only_by=None if is_at_home else self.writer,
        )


def _logs(source: SourceRef) -> Sequence[Path]:
    """The files of a source; a folder that is closed to us is an error here."""
    from amux.adapters.pi.places import is_log

    if source.path.suffix == _LOG:
        return [source.path]
    with os.scandir(source.path) as entries:
        return sorted(Path(entry.path) for entry in entries if is_log(entry))


def _origin(source: SourceRef) -> Origin:
    from amux.adapters.pi.log import Origin

    session_id = source.session_id or source.path.stem
    folder = source.path.parent if source.path.suffix == _LOG else source.path
    below = folder.relative_to(source.root).as_posix()
    is_specified = below == session_id
    is_subagent = source.role == "subagent"
    is_of_a_directory = below.startswith(("-", ".")) or is_subagent
    return Origin(
        session_id=session_id,
        path=str(source.path),
        decides_id=is_specified,
        leaf="newest" if is_specified else "last",
        kind="subagent" if is_subagent else None,
        parent=source.parent,
        archived=source.archived,
        aliases=() if is_of_a_directory else (below,),
    )
