"""`create_client()` and `Client`: one object, a namespace per concern, each loaded on first use.

Creating a client does no I/O. The command line uses the client and no layer below it.

Any number of threads may share a client. Calls that use the index run one after the other; an
iterator that was returned does not block other calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from functools import cached_property
from pathlib import Path

from amux.errors import ValidationError
from amux.host import Host
from amux.wiring import Wiring

TYPE_CHECKING = False  # importing `typing` would take a tenth of the time of a fast list
if TYPE_CHECKING:
    from typing import Any, Literal, Self

    from amux.annotations.manager import AnnotationManager
    from amux.background import BackgroundIndexer
    from amux.config import Color, Config
    from amux.index.fast_list import FastReport, FastTexts
    from amux.lifecycle.framework import SessionFramework
    from amux.lifecycle.lifecycle import Lifecycle
    from amux.lifecycle.reset import ResetPolicySet
    from amux.lifecycle.restore import RestoreRegistry
    from amux.lifecycle.restore_report import RestoreReport
    from amux.lifecycle.router import SourceRouter
    from amux.managed.sessions import ManagedSessions
    from amux.model.change import SessionChange
    from amux.model.cost import CostBlock
    from amux.model.ids import NativeRef
    from amux.model.options import BlockOptions, ExportFormat, SessionListOptions, SessionQuery
    from amux.model.reports import (
        AgentStatus,
        BlockReport,
        CostExplanation,
        ListReport,
        Overview,
        RootReport,
        SearchReport,
        UnknownReport,
    )
    from amux.pricing.registry import ModelRegistry
    from amux.reading.adapter_manager import AdapterManager
    from amux.render.terminal_text import Line
    from amux.run_index import RunIndex
    from amux.runs.launch import Launch
    from amux.runs.manager import RunManager, SessionAddress
    from amux.runs.run import Run
    from amux.sessions.follow.follow import Follow, Stop
    from amux.sessions.index_manager import IndexManager
    from amux.sessions.manager import SessionManager
    from amux.sessions.options import Moment
    from amux.store.session_store import SessionStore


def create_client(
    *,
    home: Path | str | None = None,
    config_dir: Path | str | None = None,
    project_dir: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    default_agent: str | None = None,
    config: Config | None = None,
    profile: str | None = None,
    now: datetime | None = None,
    max_age: float = 0.0,
) -> Client:
    """Create a client for this machine, or for another home directory.

    With `home` and no `env` the environment is empty: variables that move an agent's files on this
    machine do not apply to another home. For another home there is no index, unless
    AMUX_CACHE_DIR in `env` names its directory.

    `profile` names a profile of the settings; `config` replaces all settings, so it excludes
    `profile`.

    Every call checks the agents' files first. With `max_age` a long-lived client may answer from a
    check that is at most so many seconds old.
    """
    if not max_age >= 0.0:
        raise ValidationError("`max_age` must not be negative", fields=("max_age",))
    if config is not None and profile is not None:
        raise ValidationError("`config` and `profile` cannot be combined", fields=("profile",))
    host = Host.from_process()
    if home is not None:
        host = Host(Path(home).absolute(), env={} if env is None else env)
    elif env is not None:
        host = Host(Path(env.get("HOME") or host.home), env=env)
    if config_dir is not None:
        host.env = {**host.env, "AGENT_MUX_CONFIG_DIR": str(Path(config_dir).absolute())}
    if now is not None:
        host.now = lambda: now
    return Client(
        host,
        project_dir=None if project_dir is None else Path(project_dir).absolute(),
        default_agent=default_agent,
        config=config,
        profile=profile,
        keeps_index=home is None or bool(host.env.get("AMUX_CACHE_DIR", "").strip()),
        max_age=max_age,
    )


class Client:
    """Access to the sessions, costs and annotations of one home directory."""

    def __init__(
        self,
        host: Host,
        *,
        project_dir: Path | None = None,
        default_agent: str | None = None,
        config: Config | None = None,
        profile: str | None = None,
        keeps_index: bool = True,
        read_only: bool = False,
        max_age: float = 0.0,
    ) -> None:
        self._parts = Wiring(
            host,
            project_dir=project_dir,
            given=config,
            profile=profile,
            keeps_index=keeps_index,
            max_age=max_age,
        )
        self._default_agent = default_agent
        self._read_only = read_only

    @property
    def config(self) -> Config:
        """The settings, merged from all their sources."""
        return self._parts.config

    @property
    def default_agent(self) -> str | None:
        """The agent that is used if none is named."""
        return self._default_agent or self.config.default_agent

    @cached_property
    def sessions(self) -> SessionManager:
        """The eight operations that read sessions."""
        from amux.sessions.manager import SessionManager

        return SessionManager(self._parts.service)

    @cached_property
    def adapters(self) -> AdapterManager:
        """The supported agents and their adapters."""
        from amux.reading.adapter_manager import AdapterManager
        from amux.runs.abilities import installed_capabilities
        from amux.runs.launch import detect

        return AdapterManager(
            self._parts.host,
            self._parts.registry,
            self._parts.catalog,
            detect=detect,
            capabilities=installed_capabilities,
        )

    @cached_property
    def index(self) -> IndexManager:
        """The index: its state, updating and checking it."""
        from amux.sessions.index_manager import IndexManager

        return IndexManager(self._parts.service, self._parts.database)

    @property
    def needs_indexer(self) -> bool:
        """Whether the answers so far have left much to the background indexer; reads no source."""
        return self._parts.needs_indexer

    @cached_property
    def background(self) -> BackgroundIndexer:
        """The background indexer of the index.

        Raises:
            ValidationError: The client has no index.
        """
        from amux.background import BackgroundIndexer
        from amux.index.indexer_lock import IndexerLock

        database, host = self._parts.database, self._parts.host
        if database is None:
            raise ValidationError("there is no index to update in the background")
        return BackgroundIndexer(
            IndexerLock(database.path),
            self.index,
            watch=self.watch,
            now=host.now,
            elapsed=host.clock.elapsed,
        )

    def watch(self, report: Callable[[int, int, str], None] | None) -> None:
        """Set a callback for `(done, total, unit)` while sources are read; `None` removes it."""
        self._parts.service.set_progress(
            None if report is None else lambda done, all_: report(done, all_, "bytes")
        )

    @property
    def store(self) -> SessionStore:
        """The session store: threads that other programs write through amux.

        It lies in amux's data directory, or where AMUX_STORE says: a directory or a
        `postgresql://` URL.

        Raises:
            ValidationError: The client is that of the demo, which has no store.
        """
        if self._read_only:
            raise ValidationError("the demo has no session store")
        return self._parts.store

    @property
    def lifecycle(self) -> Lifecycle:
        """The hooks that run when a session of the store starts, resumes, is cleared or compacted.

        Raises:
            ValidationError: The client is that of the demo, which has no store.
        """
        return self._framework.lifecycle

    @property
    def restore(self) -> RestoreRegistry:
        """The parts of a session's state that are saved in the store and restored.

        Raises:
            ValidationError: The client is that of the demo, which has no store.
        """
        return self._framework.restore

    @property
    def sources(self) -> SourceRouter:
        """The sessions of chats in the store.

        Raises:
            ValidationError: The client is that of the demo, which has no store.
        """
        return self._framework.router

    @property
    def reset(self) -> ResetPolicySet:
        """The policies by which sessions of chats start anew.

        Raises:
            ValidationError: The client is that of the demo, which has no store.
        """
        return self._framework.reset

    @property
    def _framework(self) -> SessionFramework:
        if self._read_only:
            raise ValidationError("the demo has no session store")
        return self._parts.framework

    def restore_report(self, ref: str) -> RestoreReport:
        """Return what resuming a thread of the store would bring back; nothing is written."""
        from amux.lifecycle.live_session import LiveSession

        store = self.store
        session = LiveSession(store.log, store.resolve(ref), "")
        return self.restore.examine(session)

    @cached_property
    def managed(self) -> ManagedSessions:
        """Sessions of agents that amux starts, resumes, saves and recovers.

        Raises:
            ValidationError: The client is that of the demo, which starts no agents.
        """
        if self._read_only:
            raise ValidationError("the demo has no managed sessions")
        from amux.managed.sessions import ManagedSessions

        return ManagedSessions(
            self._parts.host,
            self.config.session_management,
            self._parts.registry,
            lambda: self.runs,
            lambda ref: self.sessions.get(ref.agent, ref.native_session_id),
        )

    @property
    def models(self) -> ModelRegistry:
        """The prices of models, with the user's overrides."""
        return self._parts.models

    @property
    def run_index(self) -> RunIndex:
        """All recorded runs."""
        return self._parts.run_index

    @cached_property
    def runs(self) -> RunManager:
        """Runs of the agents: starting them, and the run index.

        Raises:
            ValidationError: The client is that of the demo, which has no agents.
        """
        from amux.run_index import read_run_index
        from amux.runs.manager import RunManager

        if self._read_only:
            raise ValidationError("the demo has no agents to run")
        parts = self._parts
        return RunManager(
            parts.host,
            parts.registry,
            find=self._session_address,
            read_index=lambda: read_run_index(parts.host, parts.project_dir),
            models=lambda: parts.models,
            default_agent=lambda: self.default_agent,
            on_recorded=self._renew_runs,
        )

    def run(
        self, agent: str | None = None, prompt: str | Sequence[str] = "", **options: Any
    ) -> Run:
        """Start an agent with a prompt and return the run; see `RunManager.run` for the options.

        Iterating over the run yields its events, `wait()` returns its result.
        """
        return self.runs.run(agent, prompt, **options)

    @cached_property
    def annotations(self) -> AnnotationManager:
        """Tags, stars and notes."""
        from amux.annotations.manager import AnnotationManager

        return AnnotationManager(
            self._parts.annotation_file,
            self.find,
            run_tags=self._run_tags,
            now=self._parts.host.now,
            read_only=self._read_only,
        )

    def find(self, ref: str, *, agent: str | None = None) -> NativeRef:
        """Return the session with this unified id, native id, unique prefix of an id, or title.

        Raises:
            SessionNotFoundError: No session matches, or several do (AMBIGUOUS_ID).
            ParseError: The source of the session cannot be read.
            AgentNotFoundError: The given agent is unknown.
        """
        return self._parts.service.find(ref, agent=agent, by_title=True).ref

    def list_report(self, agents: Sequence[str] | None, options: SessionListOptions) -> ListReport:
        """Return the sessions of some agents (None: all), with the counts of omitted ones."""
        return self._parts.service.list_report(agents, options)

    def fast_list(self, agents: Sequence[str] | None, **wanted: object) -> FastReport | None:
        """Return the result of `list_report` from the index alone; None if it is not up to date.

        `wanted` are since, until, model, sort, descending, limit, children and archived.
        """
        lists = self._parts.fast_list
        return None if lists is None else lists.report(agents, wanted)

    def fast_texts(self, agents: Sequence[str] | None, **wanted: object) -> FastTexts | None:
        """Return the result of `fast_list` with each session as indented JSON."""
        lists = self._parts.fast_list
        return None if lists is None else lists.texts(agents, wanted)

    @property
    def has_settings(self) -> bool:
        """Whether there is a settings file, or settings or a profile were passed."""
        return self._parts.has_settings

    @property
    def display_settings(self) -> tuple[Color, tuple[str, ...]]:
        """When to use colours, and the warnings about the settings."""
        return self._parts.display_settings

    @property
    def zone(self) -> tzinfo:
        """The time zone of the settings, in which days begin and end."""
        return self._parts.zone

    @property
    def index_was_written(self) -> bool:
        """Whether this client has written to its index, so that less must be read next time."""
        return self._parts.index_was_written

    def search_report(self, query: SessionQuery) -> SearchReport:
        """Return the result of a search, with the problems of reading."""
        return self._parts.service.search_report(query)

    def stream_export(
        self, agent: str, session_id: str, format: ExportFormat, *, title: str | None = None
    ) -> Iterator[str]:
        """Yield the text of `sessions.export` in pieces, in bounded memory."""
        from amux.render import exporter

        render = exporter(format, title=title)
        return render(*self._parts.service.stream(agent, session_id))

    def stream_terminal(
        self, agent: str, session_id: str, *, width: int, full: bool = False
    ) -> Iterator[Line]:
        """Yield a session as lines for people, in bounded memory; raises the errors of `get`.

        A line is a tuple of texts, each with the name of a style; no text contains a control
        character. `full` shows everything, else long and injected texts are folded.
        """
        from amux.render.terminal import render_terminal
        from amux.render.terminal_text import Layout

        outline = self._parts.service.outline(agent, session_id)
        can_resume = self._parts.registry.require(agent).info.capabilities.can_resume
        layout = Layout(width, full, datetime.astimezone)
        return render_terminal(outline, layout, resumable=can_resume and not self._read_only)

    def follow(
        self,
        agent: str,
        session_id: str,
        *,
        from_start: bool = False,
        poll: float | None = None,
        stop: Stop | None = None,
        idle_timeout: float | None = None,
    ) -> Follow:
        """Return an iterator over the changes of a session and its sub-agents, as they happen.

        Args:
            agent: The session's agent.
            session_id: Its id or an unambiguous prefix of it.
            from_start: Report the existing messages, too.
            poll: Seconds between two checks; by default 0.25 for files and 2 for databases.
            stop: An event, or a function that is called before every check: whether to end.
            idle_timeout: End after so many seconds without a change.

        Raises the errors of `sessions.get`, before the iterator is returned.
        """
        from amux.sessions.follow.follow import Follow

        opened = self._parts.service.open(agent, session_id)
        return Follow(
            self._parts.catalog,
            self._parts.registry.require(agent),
            self._parts.host,
            opened,
            from_start=from_start,
            poll=poll,
            stop=stop,
            idle_timeout=idle_timeout,
        )

    def find_latest(self, *, agent: str | None = None) -> NativeRef:
        """Return the session that was written to last, by the times of its files.

        Raises:
            SessionNotFoundError: There is no session.
            AgentNotFoundError: The given agent is unknown.
        """
        from amux.sessions.find import find_latest

        return find_latest(self._parts.registry, self._parts.catalog, agent=agent)

    def render_change(self, change: SessionChange, *, speaker: str | None = None) -> Iterator[str]:
        """Yield the message of a change in Markdown, as in an export; nothing if it has none.

        `speaker` is the unified id of the session shown before; a different session gets a heading.
        """
        from amux.render.markdown import render_change

        return render_change(change, speaker=speaker)

    def terminal_changes(self, *, width: int) -> Callable[[SessionChange], Iterator[Line]]:
        """Return a function that yields the message of a change as `stream_terminal` does.

        Changes are passed in order: what was shown before is not repeated.
        """
        from amux.render.terminal_messages import ChangeLayout
        from amux.render.terminal_text import Layout

        return ChangeLayout(Layout(width, to_local=datetime.astimezone)).lines

    def explain_cost(self, agent: str, session_id: str) -> CostExplanation:
        """Return every counted call, every ignored copy and every rate of one session."""
        return self._parts.service.explain(agent, session_id)

    def cost_blocks(
        self,
        *,
        agent: str | None = None,
        model: str | None = None,
        since: Moment = None,
        until: Moment = None,
        hours: int = 5,
    ) -> tuple[CostBlock, ...]:
        """Return windows of `hours` hours with the spending in each, by agent, oldest first.

        `since` and `until` select the windows that overlap that span.

        Raises:
            ValidationError: `hours` is not a whole number from 1 to 168.
        """
        from amux.model.options import BlockOptions

        options = BlockOptions(agent=agent, model=model, since=since, until=until, hours=hours)
        return self.block_report(options).blocks

    def block_report(self, options: BlockOptions) -> BlockReport:
        """Return the windows of `cost_blocks`, with the problems of reading."""
        from amux.sessions.blocks import find_blocks

        return find_blocks(self._parts.service, options, now=self._parts.host.now())

    def plan_run(
        self,
        action: Literal["new", "resume", "fork"],
        *,
        ref: NativeRef | None = None,
        agent: str | None = None,
        prompt: str | None = None,
    ) -> Launch:
        """Return the command that starts the agent itself; start nothing.

        A directory of the session that no longer exists is left out. `runs.plan` has more options.

        Raises:
            CapabilityError: The agent, or its installed version, cannot do that.
            AmuxError: The agent's program is not on the PATH (AGENT_NOT_INSTALLED).
        """
        from amux.launchers import LaunchRequest
        from amux.runs.launch import plan_launch

        name = agent or (ref.agent if ref is not None else self.default_agent)
        if name is None:
            raise ValidationError("no agent is given", hint="name one, or set `default_agent`")
        cwd = session_id = None
        if ref is not None:  # the reference may be an alias, which the agent does not know
            _, session = self._parts.service.open(ref.agent, ref.native_session_id)
            cwd, session_id = session.facts.cwd, session.session_id
        request = LaunchRequest(action, session_id=session_id, prompt=prompt)
        adapter = self._parts.registry.require(name)
        return plan_launch(adapter, self._parts.host, request, cwd=cwd, asks_version=True)

    def start(self, launch: Launch) -> int:
        """Replace this process with the agent; on Windows run it and return its exit code."""
        from amux.runs.launch import start

        return start(launch)

    def agents(self, agent: str | None = None) -> tuple[AgentStatus, ...]:
        """Return the roots, sessions and installed capabilities of each agent, or of one."""
        from amux.runs.abilities import as_installed
        from amux.sessions.overview import agent_statuses

        statuses = agent_statuses(self._parts.service, agent)
        return as_installed(statuses, self._parts.registry, self._parts.host)

    def doctor(self, agent: str | None = None) -> tuple[RootReport, ...]:
        """Return every file below the agents' roots with its status, and what is deleted next."""
        from amux.sessions.doctor import examine

        names = self._parts.registry.names() if agent is None else (agent,)
        return examine(self._parts.service, names)

    def unknown(self, agent: str | None = None) -> tuple[UnknownReport, ...]:
        """Return the record types, fields and files that amux does not know, of each agent or one.

        The report has no text of a session: names that look like data are masked.
        """
        from amux.sessions.unknown import report_unknown

        names = self._parts.registry.names() if agent is None else (agent,)
        return report_unknown(self._parts.service, names)

    def lost_annotations(self, agent: str | None = None) -> tuple[str, ...]:
        """Return the annotated sessions, of all agents or one, that no longer exist here."""
        from amux.sessions.find import missing_sessions

        entries = self.annotations.entries()
        ids = [each.unified_id for each in entries]
        return missing_sessions(self._parts.registry, self._parts.catalog, ids, agent=agent)

    def overview(self) -> Overview:
        """Return the agents, the last sessions and the cost of the last seven days."""
        from amux.sessions.overview import make_overview

        return make_overview(self._parts.service, now=self._parts.host.now())

    def close(self) -> None:
        """Close the index, if it is open.

        Any thread may call this; it waits for a call in progress. The next call opens the index
        again.
        """
        if "managed" in self.__dict__:
            self.managed.close()
        self._parts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _session_address(self, ref: str, agent: str | None) -> SessionAddress:
        """Return the session that an id, a prefix or a title names, with its directory."""
        from amux.runs.manager import SessionAddress

        found = self.find(ref, agent=agent)
        _, session = self._parts.service.open(found.agent, found.native_session_id)
        return SessionAddress(
            agent=found.agent, session_id=session.session_id, cwd=session.facts.cwd
        )

    def _renew_runs(self) -> None:
        """Read the recorded runs anew on the next call."""
        self._parts.renew_runs()
        for name in ("sessions", "index"):
            self.__dict__.pop(name, None)

    def _run_tags(self) -> Iterator[tuple[str, Sequence[str]]]:
        return self.run_index.tags_by_session()


def create_demo_client() -> Client:
    """Create a client for the built-in sample sessions, whose current time is the day they end."""
    from amux.demo import DEMO_NOW, demo_home

    host = Host(demo_home(), now=lambda: DEMO_NOW)
    return Client(host, read_only=True, keeps_index=False)
