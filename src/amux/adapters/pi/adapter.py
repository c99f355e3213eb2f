"""The adapter that Pi and oh-my-pi share, and the discovery of their logs.

Logs below a `sessions` folder are classified by their names alone:

    <folder of a working directory>/<time>_<id>.jsonl            a session
    <folder of a working directory>/<time>_<id>/<task>.jsonl     a sub-agent of it (oh-my-pi)
    <time>_<id>.jsonl                                            a session in a session folder
    <id>/*.jsonl                                                 a session, as specified

Links are not followed, so no source is outside the root.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from amux.adapters._base import AgentInfo, Item, SourceRef, Want
from amux.adapters._kit.folders import Folders
from amux.adapters._kit.jsonl import unreadable

if TYPE_CHECKING:
    from amux.adapters.pi.log import Origin

Companions = tuple[Path, ...] | Callable[[], tuple[Path, ...]]

Writer = Literal["pi", "omp"]

_LOG: Final = ".jsonl"
_DEPTH: Final = 6
_TIMED_NAME: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d.-]+Z_(.+)", re.DOTALL)


class TreeAdapter:
    """Discovers and reads logs below a `sessions` folder. Stateless."""

    info: AgentInfo
    writer: Writer
    home_folder: str  # the folder in the home directory that only this agent uses

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """Yield all logs below a root: a fork may be in another folder than its origin."""
        del cwd
        return LogFinder(self.info.name, root, self.companions).sources()

    def companions(self, root: Path, log: Path) -> Companions:
        """Return the further files that the facts of a session's log depend on."""
        del root, log
        return ()

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
            if source.path.suffix == _LOG:
                paths = [source.path]
            else:
                with os.scandir(source.path) as entries:
                    paths = sorted(Path(entry.path) for entry in entries if is_log(entry))
        except OSError as error:
            yield unreadable(source.path, error)
            return
        is_at_home = self.home_folder in source.root.parts
        yield from read_log(
            FileLines(paths),
            self.log_origin(source),
            want=want,
            blobs=source.root.parent / "blobs",
            only_by=None if is_at_home else self.writer,
        )

    def log_origin(self, source: SourceRef) -> Origin:
        """Return the properties of a log that follow from its location."""
        return origin_of(source)


def origin_of(source: SourceRef) -> Origin:
    """Return the properties of a log that follow from its location."""
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


class LogFinder:
    """Finds the logs below one root of one agent."""

    def __init__(
        self, agent: str, root: Path, companions: Callable[[Path, Path], Companions]
    ) -> None:
        self._template = SourceRef(agent=agent, path=root, root=root, group=str(root))
        self._root = root
        self._companions = companions
        self._folders = Folders()

    def sources(self) -> Iterator[SourceRef]:
        """Yield all logs."""
        for entry in self._folders.by_name(self._root):
            if is_log(entry):
                yield self._session(Path(entry.path))
            elif entry.is_dir(follow_symlinks=False):
                yield from self._folder(Path(entry.path), _DEPTH)
        yield from self._folders.sources(
            self._template.agent, self._root, group=self._template.group
        )

    def _folder(self, folder: Path, depth: int) -> Iterator[SourceRef]:
        parent = session_id_in(folder.name)
        if parent is not None:
            yield from self._subagents(folder, parent, depth)
            return
        found = self._folders.by_name(folder)
        logs = [Path(entry.path) for entry in found if is_log(entry)]
        if folder.name.startswith("-") or any(session_id_in(log.stem) for log in logs):
            yield from map(self._session, logs)  # each file is a session
        elif logs:  # all files together are one session
            is_one_file = len(logs) == 1
            yield self._template.replace(
                path=logs[0] if is_one_file else folder,
                session_id=folder.relative_to(self._root).as_posix(),
                companions=() if is_one_file else tuple(logs),
            )
        for entry in found:
            if depth and entry.is_dir(follow_symlinks=False):
                yield from self._folder(Path(entry.path), depth - 1)

    def _session(self, path: Path) -> SourceRef:
        session_id = session_id_in(path.stem) or path.stem
        companions = self._companions(self._root, path)
        return self._template.replace(path=path, session_id=session_id, companions=companions)

    def _subagents(self, folder: Path, parent: str, depth: int) -> Iterator[SourceRef]:
        for entry in self._folders.by_name(folder):
            path = Path(entry.path)
            if is_log(entry):
                yield self._template.replace(
                    path=path, session_id=path.stem, role="subagent", parent=parent
                )
            elif depth and entry.is_dir(follow_symlinks=False):
                yield from self._subagents(path, parent, depth - 1)


def session_id_in(stem: str) -> str | None:
    """Return the session id in a file name that begins with a time; None for other names."""
    found = _TIMED_NAME.fullmatch(stem)
    return None if found is None else found[1]


def is_log(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a log, judged by its name."""
    name = entry.name
    hidden = name.startswith(".")  # a temporary file of a writer that was stopped
    return name.endswith(_LOG) and not hidden and entry.is_file(follow_symlinks=False)
