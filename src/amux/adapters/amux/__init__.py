"""Reads the threads of our own session store, from its files or through the log protocol.

Store     $AMUX_STORE, else `store` in amux's data directory: sessions/rollout-<time>-<uuid>.jsonl,
          archived_sessions/; or any backend of the log protocol, such as PostgreSQL
Formats   rollouts, docs/internals/rollout-format.md
Counting  the usage that a record states; copies of a fork belong to the thread they come from
Title     the title of the thread, else the first prompt
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from amux.adapters._base import (
    AgentInfo,
    Capabilities,
    Command,
    IgnoredFiles,
    Item,
    SourceRef,
    Want,
    has_bodies,
)
from amux.adapters._kit.folders import Inside, read_closed
from amux.adapters._kit.related import (
    ANY,
    LinkKeys,
    Named,
    RelatedSessions,
    SharedKeys,
    all_link_keys,
    by_name,
)
from amux.host import Host

if TYPE_CHECKING:
    from amux.rollout.log import ThreadLog
    from amux.rollout.threads import ThreadSummary

NAME: Final = "amux"
INFO: Final = AgentInfo(
    name=NAME,
    label="amux store",
    cli_command="amux",
    capabilities=Capabilities(session_persistence="file", can_resume=True, can_fork=True),
    tier="extra",
    revision=2,
    evidence="our own format, version 1; docs/internals/rollout-format.md",
    ignored_files=(
        IgnoredFiles("state.db*", "the index of the store"),
        IgnoredFiles("store.lock", "the lock of the store"),
        IgnoredFiles("keys/*", "external keys of threads"),
        IgnoredFiles("leases/*", "running turns"),
        IgnoredFiles("transactions/*", "appends to several threads"),
        IgnoredFiles("blobs/*", "values that records refer to"),
        IgnoredFiles("values/*", "values of programs"),
        IgnoredFiles("changed/*", "threads the index has not read"),
        IgnoredFiles("damaged/*", "originals of repaired threads"),
    ),
    indexable=True,
)

_PREFIX: Final = "rollout-"
_UUID_LENGTH: Final = 36
_FOLDERS: Final = {"sessions": False, "archived_sessions": True}


def store_address(host: Host) -> str:
    """Return where the store of a host is: AMUX_STORE, else a directory in amux's data."""
    given = host.env.get("AMUX_STORE", "").strip()
    if given:
        return given if "://" in given else str(host.expand(given))
    return str(host.data_dir() / "store")


class StoreAdapter:
    """Reads the threads in the files of a store. Stateless."""

    info = INFO

    def roots(self, host: Host) -> Sequence[Path]:
        """Return the directory of the store; a store in a database has none."""
        address = store_address(host)
        return [] if "://" in address else [Path(address)]

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """Yield the rollouts, by name; the archive is a directory of its own."""
        del cwd
        inside = Inside(root)
        folders = inside.entries(root)
        for name, archived in _FOLDERS.items():
            for path in inside.entries(folders.get(name)).values():
                stem = path.name.removesuffix(".jsonl")
                if path.name.startswith(_PREFIX) and stem != path.name:
                    yield SourceRef(
                        agent=NAME,
                        path=path,
                        root=root,
                        session_id=stem[-_UUID_LENGTH:],
                        group=str(root),
                        archived=archived,
                    )
        yield from inside.folders.sources(NAME, root, group=str(root))

    def read(
        self, source: SourceRef, *, want: Want, only: str | None = None, until: int | None = None
    ) -> Iterator[Item]:
        """Yield the items of the thread in a rollout."""
        del only, until
        if source.role == "names":
            yield from read_closed(source)
            return
        from amux.adapters.amux.threads import read_rollout

        yield from read_rollout(source.path, archived=source.archived, bodies=has_bodies(want))

    def names(self, source: SourceRef) -> Sequence[Named] | None:
        """Return the thread that the name of a source contains."""
        return None if source.session_id is None else [Named(source.session_id)]

    def related(self, sources: Sequence[SourceRef], session_id: str) -> RelatedSessions | None:
        """Return the selection of a thread, its forks, its origins and its sub-agents."""
        link_keys = all_link_keys(sources, self._link_keys)
        return None if link_keys is None else SharedKeys(link_keys, session_id)

    def read_selected(self, source: SourceRef, *, chosen: Sequence[str]) -> Iterator[Item]:
        """Yield the facts of a thread."""
        del chosen
        return self.read(source, want="facts")

    def _link_keys(self, source: SourceRef) -> LinkKeys | None:
        """Return the thread that a thread comes from, which only its first line names."""
        if source.session_id is None or source.role == "names":
            return by_name(source)
        from amux.adapters.amux.threads import meta_in

        meta = meta_in(source.path)
        if meta is None:
            return {source.session_id: (ANY,)}
        origin = meta.parent or meta.forked_from
        return {source.session_id: () if origin is None else (origin,)}

    def command(
        self,
        action: Literal["new", "resume", "fork"],
        *,
        session_id: str | None = None,
        prompt: str | None = None,
        cwd: str | None = None,
        version: str | None = None,
    ) -> Command | None:
        """Return None: the program that writes a thread is not ours to start."""
        del action, session_id, prompt, cwd, version
        return None


class LogAdapter(StoreAdapter):
    """Reads the threads of an open log, such as one in PostgreSQL."""

    def __init__(self, log: ThreadLog, address: str) -> None:
        self._log = log
        self._root = address.partition("?")[0]

    def roots(self, host: Host) -> Sequence[Path]:
        """Return the address of the store, which is no path."""
        del host
        return [Path(self._root)]

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """Yield the threads of the log."""
        for thread in self._threads(cwd):
            yield SourceRef(
                agent=NAME,
                path=f"{self._root}#{thread.thread_id}",
                root=root,
                session_id=thread.thread_id,
                group=self._root,
                archived=thread.archived,
            )

    def fingerprint(self, source: SourceRef | Path) -> bytes:
        """Return the heads and places of all threads, or of one."""
        if isinstance(source, Path):
            return "\n".join(map(_state, sorted(self._threads(), key=_state))).encode()
        thread = self._log.get(source.session_id or "")
        return b"" if thread is None else _state(thread).encode()

    def read(
        self, source: SourceRef, *, want: Want, only: str | None = None, until: int | None = None
    ) -> Iterator[Item]:
        """Yield the items of a thread."""
        del only, until
        from amux.adapters.amux.threads import read_thread

        yield from read_thread(
            self._log,
            source.session_id or "",
            path=source.location,
            archived=source.archived,
            bodies=has_bodies(want),
        )

    def related(self, sources: Sequence[SourceRef], session_id: str) -> RelatedSessions | None:
        """Return the selection of a thread, its forks, its origins and its sub-agents."""
        origins = {each.thread_id: each.parent or each.forked_from for each in self._threads()}
        link_keys: dict[SourceRef, LinkKeys] = {}
        for source in sources:
            thread_id = source.session_id or ""
            origin = origins.get(thread_id)
            link_keys[source] = {thread_id: () if origin is None else (origin,)}
        return SharedKeys(link_keys, session_id)

    def _threads(self, cwd: str | None = None) -> list[ThreadSummary]:
        from amux.rollout.threads import ThreadFilter

        del cwd  # a turn may have moved the thread to another directory
        return self._log.threads(ThreadFilter(archived=None))


def _state(thread: ThreadSummary) -> str:
    return f"{thread.thread_id} {thread.head} {thread.archived} {thread.updated_at.isoformat()}"


ADAPTER: Final = StoreAdapter()
