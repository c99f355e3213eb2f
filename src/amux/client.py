"""`create_client()` and the client: one object, a namespace per concern, each loaded when used.

Building a client does no I/O. The faces talk to the client and to nothing below it.

One client may be used by any number of threads. Answers that the index has a part in are made one
after the other; an iterator that was given out keeps nobody waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from functools import cached_property
from pathlib import Path

from amux.errors import ValidationError
from amux.host import Host
from amux.workspace import Workspace

TYPE_CHECKING = False  # `typing` would be a tenth of a quick list
if TYPE_CHECKING:
    from typing import Literal, Self

    from amux.adapter_manager import AdapterManager
    from amux.annotations.manager import AnnotationManager
    from amux.config import Config
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
    )
    from amux.pricing.registry import ModelRegistry
    from amux.run_index import RunIndex
    from amux.runs.launch import Launch
    from amux.sessions.filters import Moment
    from amux.sessions.follow import Follow, Stop
    from amux.sessions.manager import SessionManager
    from amux.sessions.quick import QuickReport, QuickTexts
    from amux.sessions.upkeep import IndexManager


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
    """A client for this machine, or for another home.

    With `home` and no `env` the environment is empty: variables that move an agent's store on this
    machine say nothing about another home. Nor is an index kept in another home, unless
    AMUX_CACHE_DIR in `env` says where.

    `profile` is one of those in the settings; `config` stands for all settings, so there is none
    to choose then.

    Every question looks at the agents' files first. With `max_age` a client that stays may answer
    from a look that is at most so many seconds old, as it would have answered then.
    """
    if not max_age >= 0.0:
        raise ValidationError("max_age must not be negative", fields=("max_age",))
    if config is not None and profile is not None:
        raise ValidationError("config and profile exclude each other", fields=("profile",))
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
    """One opened workspace: a host, its settings, and what can be asked of it."""

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
        self._parts = Workspace(
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
        """The settings, layer over layer."""
        return self._parts.config

    @property
    def default_agent(self) -> str | None:
        """The agent meant when none is named."""
        return self._default_agent or self.config.default_agent

    @cached_property
    def sessions(self) -> SessionManager:
        """The eight read operations."""
        from amux.sessions.manager import SessionManager

        return SessionManager(self._parts.reader)

    @cached_property
    def adapters(self) -> AdapterManager:
        """Which agents there are."""
        from amux.adapter_manager import AdapterManager
        from amux.runs.abilities import installed_capabilities
        from amux.runs.launch import detect

        return AdapterManager(
            self._parts.host,
            self._parts.registry,
            self._parts.library,
            detect=detect,
            capabilities=installed_capabilities,
        )

    @cached_property
    def index(self) -> IndexManager:
        """The index: what it holds, updating, checking."""
        from amux.sessions.upkeep import IndexManager

        return IndexManager(self._parts.reader, self._parts.store)

    def watch(self, report: Callable[[int, int, str], None] | None) -> None:
        """Be told how far reading has come: done, total, of what."""
        self._parts.catalogue.watch(
            None if report is None else lambda done, all_: report(done, all_, "bytes")
        )

    @property
    def models(self) -> ModelRegistry:
        """Prices, with the user's overrides."""
        return self._parts.models

    @property
    def run_index(self) -> RunIndex:
        """Every run that was recorded."""
        return self._parts.run_index

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
        """A session by unified id, native id, unique prefix or title.

        Raises:
            SessionNotFoundError: Nothing fits, or several do (AMBIGUOUS_ID).
            ParseError: A source has the name of the session, but cannot be read.
            AgentNotFoundError: The given agent is unknown.
        """
        from amux.sessions.address import find_session

        return find_session(
            self._parts.registry, self._parts.library, ref, agent=agent, by_title=True
        ).ref

    def list_report(self, agents: Sequence[str] | None, options: SessionListOptions) -> ListReport:
        """A list over some agents (None: all), with what it leaves out."""
        return self._parts.reader.list_report(agents, options)

    def quick_list(self, agents: Sequence[str] | None, **wanted: object) -> QuickReport | None:
        """The same as `list_report` from what is kept, if nothing has changed; else None.

        `wanted` are since, until, model, sort, descending, limit, children and archived.
        """
        lists = self._parts.quick_lists
        return None if lists is None else lists.report(agents, wanted)

    def quick_texts(self, agents: Sequence[str] | None, **wanted: object) -> QuickTexts | None:
        """As `quick_list`, with each session as indented JSON."""
        lists = self._parts.quick_lists
        return None if lists is None else lists.texts(agents, wanted)

    @property
    def has_settings(self) -> bool:
        """Whether a person has written settings, or runs are recorded."""
        return self._parts.has_settings

    @property
    def zone(self) -> tzinfo:
        """The time zone of the settings: whose days are meant by a day."""
        return self._parts.zone

    @property
    def has_kept_more(self) -> bool:
        """Whether this client has added to its index: what was read need not be read again."""
        return self._parts.has_kept_more

    def search_report(self, query: SessionQuery) -> SearchReport:
        """A search, with what could not be read."""
        return self._parts.reader.search_report(query)

    def stream_export(
        self, agent: str, session_id: str, format: ExportFormat, *, title: str | None = None
    ) -> Iterator[str]:
        """As `sessions.export`, piece by piece, in bounded memory."""
        from amux.render import exporter

        render = exporter(format, title=title)
        return render(*self._parts.reader.stream(agent, session_id))

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
        """A session as it grows: an iterator of changes, its sub-agents' included.

        Args:
            agent: The session's agent.
            session_id: Its id or an unambiguous prefix of it.
            from_start: Tell the messages that are already there, too.
            poll: Seconds between two looks; by default 0.25 for files and 2 for databases.
            stop: Asked before every look, or an event: whether to end.
            idle_timeout: End after so many seconds without a change.

        Raises as `sessions.get` does, before anything is followed.
        """
        from amux.sessions.follow import Follow

        opened = self._parts.reader.open(agent, session_id)
        return Follow(
            self._parts.library,
            self._parts.registry.require(agent),
            self._parts.host,
            opened,
            from_start=from_start,
            poll=poll,
            stop=stop,
            idle_timeout=idle_timeout,
        )

    def find_latest(self, *, agent: str | None = None) -> NativeRef:
        """The session that was written to last, by the times of its files.

        Raises:
            SessionNotFoundError: There is none.
            AgentNotFoundError: The given agent is unknown.
        """
        from amux.sessions.latest import find_latest

        return find_latest(self._parts.registry, self._parts.library, agent=agent)

    def render_change(self, change: SessionChange, *, speaker: str | None = None) -> Iterator[str]:
        """The message of a change as an export shows it, in Markdown; nothing if it has none.

        `speaker` is the unified id of the session shown before: another one gets a heading.
        """
        from amux.render.markdown import render_change

        return render_change(change, speaker=speaker)

    def explain_cost(self, agent: str, session_id: str) -> CostExplanation:
        """Every counted call, every ignored copy and every rate of one session."""
        return self._parts.reader.explain(agent, session_id)

    def cost_blocks(
        self,
        *,
        agent: str | None = None,
        model: str | None = None,
        since: Moment = None,
        until: Moment = None,
        hours: int = 5,
    ) -> tuple[CostBlock, ...]:
        """Windows of so many hours with what was spent in each, by agent, oldest first.

        `since` and `until` keep the windows that reach into that span.

        Raises:
            ValidationError: A window must last a whole number of hours, from 1 to 168.
        """
        from amux.model.options import BlockOptions

        options = BlockOptions(agent=agent, model=model, since=since, until=until, hours=hours)
        return self.block_report(options).blocks

    def block_report(self, options: BlockOptions) -> BlockReport:
        """The same, with what could not be read."""
        from amux.sessions.blocks import find_blocks

        return find_blocks(self._parts.reader, options, now=self._parts.host.now())

    def plan_run(
        self,
        action: Literal["new", "resume", "fork"],
        *,
        ref: NativeRef | None = None,
        agent: str | None = None,
        prompt: str | None = None,
    ) -> Launch:
        """How the agent itself would be started; starts nothing.

        Raises:
            CapabilityError: The agent, or its installed version, cannot do that.
            AmuxError: The agent's program is not on the PATH (AGENT_NOT_INSTALLED).
        """
        from amux.runs.launch import plan_launch

        name = agent or (ref.agent if ref is not None else self.default_agent)
        if name is None:
            raise ValidationError("no agent is named", hint="name one, or set `default_agent`")
        cwd = None
        if ref is not None:
            cwd = self._parts.reader.open(ref.agent, ref.native_session_id)[1].facts.cwd
        return plan_launch(
            self._parts.registry.require(name),
            self._parts.host,
            action,
            session_id=None if ref is None else ref.native_session_id,
            prompt=prompt,
            cwd=cwd,
        )

    def start(self, launch: Launch) -> int:
        """Become the agent (where the system allows it), else run it; its exit code."""
        from amux.runs.launch import start

        return start(launch)

    def agents(self, agent: str | None = None) -> tuple[AgentStatus, ...]:
        """Each agent (or one): found where, how many sessions, what its installed version can."""
        from amux.runs.abilities import as_installed
        from amux.sessions.overview import agent_statuses

        statuses = agent_statuses(self._parts.reader, agent)
        return as_installed(statuses, self._parts.registry, self._parts.host)

    def doctor(self, agent: str | None = None) -> tuple[RootReport, ...]:
        """Every file below the agents' roots, read or not and why; what will be lost next."""
        from amux.sessions.doctor import examine

        names = self._parts.registry.names() if agent is None else (agent,)
        return examine(self._parts.reader, names)

    def lost_annotations(self, agent: str | None = None) -> tuple[str, ...]:
        """The annotated sessions (of one agent) that are not on this machine any more."""
        from amux.sessions.lost import lost_sessions

        entries = self.annotations.entries()
        ids = [each.unified_id for each in entries]
        return lost_sessions(self._parts.registry, self._parts.library, ids, agent=agent)

    def overview(self) -> Overview:
        """What a person wants to see first: agents, last sessions, this week's cost."""
        from amux.sessions.overview import make_overview

        return make_overview(self._parts.reader, now=self._parts.host.now())

    def close(self) -> None:
        """Free what is held open: the index, if it was used.

        Any thread may do it; it waits for a question that is being answered. A client that is asked
        again opens the index again.
        """
        self._parts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run_tags(self) -> Iterator[tuple[str, Sequence[str]]]:
        for run in self.run_index.runs:
            if run.session_id is not None:
                yield f"{run.agent}:{run.session_id}", run.tags


def create_demo_client() -> Client:
    """A client on the built-in sample sessions, on the day they end."""
    from amux.demo import DEMO_NOW, demo_home

    host = Host(demo_home(), now=lambda: DEMO_NOW)
    return Client(host, read_only=True, keeps_index=False)
