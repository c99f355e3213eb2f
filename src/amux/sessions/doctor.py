"""The doctor: reports for every file below an agent's roots whether it is read, and why not.

No file is left out: one that matches no rule is reported as unknown. For an agent that deletes its
own history, the report has the date of the next deletion.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatch
from pathlib import Path

from amux.adapters._base import Adapter, AgentInfo, Retention, SourceRef, is_path
from amux.adapters._kit.folders import is_folder
from amux.adapters._kit.jsonl import unreadable
from amux.assembly.session import SourceSession
from amux.model.problems import Problem
from amux.model.reports import FileReport, FileStatus, NextLoss, RootReport
from amux.reading.facts import read_facts
from amux.sessions.service import SessionService

_SIDECARS = ("-wal", "-shm", "-journal")


def examine(service: SessionService, agents: Sequence[str]) -> tuple[RootReport, ...]:
    """Return a report on every file below the roots of some agents."""
    return tuple(
        _examine_root(service.registry.require(name), root)
        for name in agents
        for root in service.catalog.roots(name)
    )


def _examine_root(adapter: Adapter, root: Path) -> RootReport:
    found = list(adapter.discover(root))
    sources = {source.path: source for source in found if source.has_path}
    owners = {path: source.path for source in sources.values() for path in source.companions}
    problems: list[Problem] = []
    with_sources = {each for path in sources for each in path.parents}
    has_folder = is_path(str(root)) and is_folder(root)
    paths = list(_walk(root, problems, with_sources)) if has_folder else []
    files = [_unreadable_folder(root, problem) for problem in problems]
    for source in found:
        if not source.has_path:
            status, what = _read_source(adapter, source, problems)
            files.append(FileReport(path=source.location, status=status, what=what, bytes=0))
    files += [
        _examine_file(adapter, root, path, sources, problems, owners=owners) for path in paths
    ]
    counts = Counter(report.status for report in files)
    return RootReport(
        agent=adapter.info.name,
        root=root.as_posix(),
        counts=dict(sorted(counts.items())),
        files=tuple(sorted(files, key=lambda report: report.path)),
        problems=tuple(problems),
        next_loss=_next_loss(adapter, root, list(sources.values())),
    )


def unknown_files(
    adapter: Adapter, root: Path, found: Sequence[SourceRef]
) -> Iterator[tuple[str, int]]:
    """Yield the relative path and the size of every file that matches no rule; read no file."""
    sources = {source.path: source for source in found}
    companions = {path for source in found for path in source.companions}
    with_sources = {each for path in sources for each in path.parents}
    for path in _walk(root, [], with_sources):
        relative = path.relative_to(root).as_posix()
        is_link = os.path.islink(path)  # noqa: PTH114 - it does not raise in an unreadable folder
        if path in sources or path in companions or is_link or _owner(path, sources) is not None:
            continue
        if _ignored(adapter.info, relative)[0] == "unknown":
            yield relative, _size(path)


def _walk(root: Path, problems: list[Problem], with_sources: set[Path]) -> Iterator[Path]:
    """Yield every file and every link below a root; add a problem for each unreadable folder.

    An agent's folder may be a link: links to folders that contain sources are followed.
    """

    def add_problem(error: OSError) -> None:
        problems.append(unreadable(Path(error.filename), error))

    for folder, folders, names in os.walk(root, onerror=add_problem):
        for name in names:
            yield Path(folder) / name
        for name in folders:
            path = Path(folder) / name
            if os.path.islink(path):  # noqa: PTH114 - it does not raise in an unreadable folder
                yield from _walk(path, problems, with_sources) if path in with_sources else (path,)


def _unreadable_folder(root: Path, problem: Problem) -> FileReport:
    folder = Path(problem.path or root)  # may be above the root
    relative = folder.relative_to(root) if folder.is_relative_to(root) else folder
    return FileReport(path=relative.as_posix(), status="unread", what=problem.message, bytes=0)


def _examine_file(
    adapter: Adapter,
    root: Path,
    path: Path,
    sources: dict[Path, SourceRef],
    problems: list[Problem],
    *,
    owners: dict[Path, Path],
) -> FileReport:
    relative = path.relative_to(root).as_posix()
    status: FileStatus
    if os.path.islink(path):  # noqa: PTH114 - it does not raise in an unreadable folder
        status, what = "link", "links are not followed"
    elif path in sources:
        status, what = _read_source(adapter, sources[path], problems)
    elif (owner := _owner(path, sources)) is not None:
        status, what = "part", f"belongs to {owner.relative_to(root).as_posix()}"
    else:
        status, what = _ignored(adapter.info, relative)
        if status == "unknown" and path in owners:
            status, what = "part", f"belongs to {owners[path].relative_to(root).as_posix()}"
    return FileReport(path=relative, status=status, what=what, bytes=_size(path))


def _read_source(
    adapter: Adapter, source: SourceRef, problems: list[Problem]
) -> tuple[FileStatus, str]:
    parts: list[SourceSession] = []
    found: list[Problem] = []
    read_facts(adapter, source, parts, found)
    found += [problem for part in parts for problem in part.facts.problems]
    problems.extend(found)
    shown = [part for part in parts if part.facts.attributed and part.facts.kind != "subagent"]
    if shown:
        return "session", "session" if len(shown) == 1 else f"{len(shown)} sessions"
    if source.role == "names" or any(part.facts.attributed for part in parts):
        return "part", "a sub-agent" if source.role != "names" else "titles of sessions"
    if any(part.facts.calls for part in parts):
        return "part", "billed calls of no session"
    if found:
        return "unread", found[0].message
    return "no-session", "holds no conversation"


def _owner(path: Path, sources: dict[Path, SourceRef]) -> Path | None:
    """Return the database that a journal file belongs to, or the source folder of a file."""
    for ending in _SIDECARS:
        if path.name.endswith(ending):
            main = path.with_name(path.name.removesuffix(ending))
            if main in sources:
                return main
    return next((parent for parent in path.parents if parent in sources), None)


def _ignored(info: AgentInfo, relative: str) -> tuple[FileStatus, str]:
    for ignored in (*info.ignored_files, *info.bystanders):
        if fnmatch(relative, ignored.pattern):
            return "bystander", ignored.what
    return "unknown", "amux does not know this file"


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _next_loss(adapter: Adapter, root: Path, sources: Sequence[SourceRef]) -> NextLoss | None:
    """Return when the agent deletes its next session: agents delete the oldest file first."""
    get_retention = getattr(adapter, "retention", None)
    retention: Retention | None = None if get_retention is None else get_retention(root)
    dated = [(_changed(source.path), source.path) for source in sources if source.role == "session"]
    existing = [(moment, path) for moment, path in dated if moment is not None]
    if retention is None or not existing:
        return None
    oldest, path = min(existing)
    return NextLoss(
        at=oldest + timedelta(days=retention.days),
        path=path.relative_to(root).as_posix(),
        reason=retention.reason,
    )


def _changed(path: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError:
        return None
