"""Reads the threads of our own session store, from its files or through the log protocol.

Store     $AMUX_STORE, else `store` in amux's data directory: sessions/rollout-<time>-<uuid>.jsonl,
          archived_sessions/; or any backend of the log protocol, such as PostgreSQL
Formats   rollouts, docs/internals/rollout-format.md
Counting  the usage that a record states; copies of a fork belong to the thread they come from
Title     the title of the thread, else the first prompt
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
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
    from amux.rollout.records import SessionMeta
    from amux.rollout.threads import ThreadSummary

NAME: Final = "amux"
CLAUDE_FORMAT: Final = "claude-jsonl"
STATE_FORMAT: Final = "adk-state"
"""The format of threads that hold the state of a user or an application: they are no sessions."""

INFO: Final = AgentInfo(
    name=NAME,
    label="amux store",
    cli_command="amux",
    capabilities=Capabilities(session_persistence="file", can_resume=True, can_fork=True),
    tier="extra",
    revision=4,
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
    """Reads the threads in the files of a store.

    It remembers the folders of Claude Code of the host whose store it is: transcripts of the Claude
    Agent SDK may lie there as well.
    """

    info = INFO

    def __init__(self) -> None:
        self._claude_roots: dict[Path, tuple[Path, ...]] = {}

    def roots(self, host: Host) -> Sequence[Path]:
        """Return the directory of the store; a store in a database has none."""
        address = store_address(host)
        return [] if "://" in address else [self._root_for(host, Path(address))]

    def _root_for(self, host: Host, root: Path) -> Path:
        from amux.adapters.claude import ADAPTER as CLAUDE

        self._claude_roots[root] = tuple(CLAUDE.roots(host))
        return root

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """Yield the rollouts, by name; the archive is a directory of its own."""
        del cwd
        inside = Inside(root)
        folders = inside.entries(root)
        has_keys = bool(inside.entries(folders.get("keys")))  # else no framework has written here
        claude_roots = self._claude_roots.get(root, ()) if has_keys else ()
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
                        companions=partial(_originals, path, claude_roots) if claude_roots else (),
                    )
        yield from inside.folders.sources(NAME, root, group=str(root))

    def read(
        self, source: SourceRef, *, want: Want, only: str | None = None, until: int | None = None
    ) -> Iterator[Item]:
        """Yield the items of the thread in a rollout."""
        del until
        if source.role == "names":
            yield from read_closed(source)
            return
        from amux.adapters.amux.originals import exists
        from amux.adapters.amux.threads import Request, read_rollout

        elsewhere = exists(source.companions)
        request = Request(want=want, only=only, archived=source.archived, calls_elsewhere=elsewhere)
        yield from read_rollout(source.path, request)

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
        return {source.session_id: _links(meta)}

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
    """Reads the threads of a log, such as one in PostgreSQL.

    The log is opened when threads are first asked for, so that a store that cannot be opened is a
    problem of this adapter alone. Sources name the address without its user and password.
    """

    def __init__(self, open_log: Callable[[], ThreadLog], address: str) -> None:
        super().__init__()
        self._open_log = open_log
        scheme, _, place = address.partition("?")[0].partition("://")
        self._root = f"{scheme}://{place.rpartition('@')[2]}"

    @property
    def _log(self) -> ThreadLog:
        return self._open_log()

    def roots(self, host: Host) -> Sequence[Path]:
        """Return the address of the store, which is no path."""
        return [self._root_for(host, Path(self._root))]

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """Yield the threads of the log."""
        for thread in self._threads(cwd):
            if thread.payload_format == STATE_FORMAT:
                continue
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
            return "\n".join(sorted(map(self._state, self._threads()))).encode()
        thread = self._log.get(source.session_id or "")
        return b"" if thread is None else self._state(thread).encode()

    def read(
        self, source: SourceRef, *, want: Want, only: str | None = None, until: int | None = None
    ) -> Iterator[Item]:
        """Yield the items of a thread."""
        del until
        from amux.adapters.amux.threads import Request, read_thread

        thread_id = source.session_id or ""
        thread = self._log.get(thread_id)
        request = Request(
            want=want,
            only=only,
            archived=source.archived,
            calls_elsewhere=thread is not None and self._has_original(thread),
        )
        yield from read_thread(self._log, thread_id, source.location, request)

    def related(self, sources: Sequence[SourceRef], session_id: str) -> RelatedSessions | None:
        """Return the selection of a thread, its forks, its origins and its sub-agents."""
        links = {each.thread_id: _links(each) for each in self._threads()}
        link_keys: dict[SourceRef, LinkKeys] = {}
        for source in sources:
            thread_id = source.session_id or ""
            link_keys[source] = {thread_id: links.get(thread_id, ())}
        return SharedKeys(link_keys, session_id)

    def _threads(self, cwd: str | None = None) -> list[ThreadSummary]:
        from amux.rollout.threads import ThreadFilter

        del cwd  # a turn may have moved the thread to another directory
        return self._log.threads(ThreadFilter(archived=None))

    def _state(self, thread: ThreadSummary) -> str:
        known = (thread.thread_id, thread.head, thread.archived, thread.updated_at.isoformat())
        return " ".join(map(str, (*known, self._has_original(thread))))

    def _has_original(self, thread: ThreadSummary) -> bool:
        """Return whether Claude Code has the transcript of a thread in its own folder."""
        if thread.payload_format != CLAUDE_FORMAT:
            return False
        from amux.adapters.amux.originals import exists, possible_files

        roots = self._claude_roots.get(Path(self._root), ())
        return exists(possible_files(thread.payload_format, thread.key, roots))


def _originals(rollout: Path, roots: Sequence[Path]) -> tuple[Path, ...]:
    from amux.adapters.amux.originals import original_files

    return original_files(rollout, roots)


def _links(thread: SessionMeta | ThreadSummary) -> tuple[str, ...]:
    """Return the keys that a thread shares with those that may hold the same calls."""
    origin = thread.parent or thread.forked_from
    links = () if origin is None else (origin,)
    if thread.payload_format == CLAUDE_FORMAT and thread.key is not None:
        links = (*links, f"project {thread.key[0]}")  # Claude Code copies within a project
    return links


ADAPTER: Final = StoreAdapter()
