"""`create_client()` and the client: one object, a namespace per concern, each loaded when used.

Building a client does no I/O. The faces talk to the client and to nothing below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from amux.errors import ValidationError
from amux.host import Host

if TYPE_CHECKING:
    from amux.adapters._base import AgentInfo, Capabilities
    from amux.config import Config
    from amux.model.ids import NativeRef
    from amux.model.options import ExportFormat, SessionListOptions, SessionQuery
    from amux.pricing.registry import ModelRegistry
    from amux.run_index import RunIndex
    from amux.runs.launch import InstalledAgent, Launch
    from amux.sessions.bound import BoundAdapter
    from amux.sessions.doctor import RootReport
    from amux.sessions.explain import CostExplanation
    from amux.sessions.library import Library
    from amux.sessions.listing import ListReport
    from amux.sessions.manager import SessionManager
    from amux.sessions.overview import AgentStatus, Overview
    from amux.sessions.reader import SessionReader
    from amux.sessions.registry import AdapterRegistry
    from amux.sessions.search import SearchReport


def create_client(
    *,
    home: Path | str | None = None,
    config_dir: Path | str | None = None,
    project_dir: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    default_agent: str | None = None,
    config: Config | None = None,
    now: datetime | None = None,
) -> Client:
    """A client for this machine, or for another home.

    With `home` and no `env` the environment is empty: variables that move an agent's store on this
    machine say nothing about another home.
    """
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
    )


class Adapters:
    """`client.adapters`: which agents there are, and adding one."""

    def __init__(self, host: Host, registry: AdapterRegistry, library: Library) -> None:
        self._host, self._registry, self._library = host, registry, library

    def register(self, adapter: object) -> None:
        """Add an adapter: the full protocol, or the specification's three session methods."""
        self._registry.register(adapter)

    def unregister(self, agent: str) -> None:
        """Forget an adapter."""
        self._registry.unregister(agent)

    def get(self, agent: str) -> BoundAdapter | None:
        """The adapter with the specification's session methods, or None."""
        from amux.sessions.bound import BoundAdapter

        adapter = self._registry.get(agent)
        return None if adapter is None else BoundAdapter(adapter, self._host, self._library)

    def list(self) -> list[AgentInfo]:
        """Who the known agents are."""
        return self._registry.list()

    def detect(self, agent: str) -> InstalledAgent | None:
        """Whether the agent itself is installed, where, and which version; None: it is not."""
        from amux.runs.launch import detect

        return detect(self._registry.require(agent), self._host)

    def capabilities(self, agent: str, *, version: str | None = None) -> Capabilities:
        """What an agent can do; with a version, what that version could."""
        return self._registry.capabilities(agent, version=version)


class Client:
    """One opened workspace: a host, its settings, and what can be asked of it."""

    def __init__(
        self,
        host: Host,
        *,
        project_dir: Path | None = None,
        default_agent: str | None = None,
        config: Config | None = None,
    ) -> None:
        self._host = host
        self._project_dir = project_dir
        self._default_agent = default_agent
        self._given_config = config

    @cached_property
    def config(self) -> Config:
        """The settings, layer over layer."""
        from amux.config import Config

        if self._given_config is not None:
            return self._given_config
        return Config.load(self._host, project_dir=self._project_dir)

    @property
    def default_agent(self) -> str | None:
        """The agent meant when none is named."""
        return self._default_agent or self.config.default_agent

    @cached_property
    def sessions(self) -> SessionManager:
        """The eight read operations."""
        from amux.sessions.manager import SessionManager

        return SessionManager(self._reader)

    @cached_property
    def adapters(self) -> Adapters:
        """Which agents there are."""
        return Adapters(self._host, self._registry, self._library)

    @cached_property
    def models(self) -> ModelRegistry:
        """Prices, with the user's overrides."""
        from amux.pricing.registry import ModelRegistry

        return ModelRegistry(self.config.prices, today=lambda: self._host.now().date())

    @cached_property
    def run_index(self) -> RunIndex:
        """Every run that was recorded."""
        from amux.run_index import read_run_index

        return read_run_index(self._host, self._project_dir)

    def find(self, ref: str, *, agent: str | None = None) -> NativeRef:
        """A session by unified id, native id, unique prefix or title.

        Raises:
            SessionNotFoundError: Nothing fits, or several do (AMBIGUOUS_ID).
            AgentNotFoundError: The given agent is unknown.
        """
        from amux.sessions.address import find_session

        return find_session(self._registry, self._library, ref, agent=agent, by_title=True)

    def list_report(self, agents: Sequence[str] | None, options: SessionListOptions) -> ListReport:
        """A list over some agents (None: all), with what it leaves out."""
        return self._reader.list_report(agents, options)

    def search_report(self, query: SessionQuery) -> SearchReport:
        """A search, with what could not be read."""
        return self._reader.search_report(query)

    def stream_export(self, agent: str, session_id: str, format: ExportFormat) -> Iterator[str]:
        """A session as text, piece by piece, in bounded memory. Raises as `sessions.get` does."""
        from amux.render import exporter

        header, messages = self._reader.stream(agent, session_id)
        return exporter(format)(header, messages)

    def explain_cost(self, agent: str, session_id: str) -> CostExplanation:
        """Every counted call, every ignored copy and every rate of one session."""
        return self._reader.explain(agent, session_id)

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
            cwd = self._reader.open(ref.agent, ref.native_session_id)[1].facts.cwd
        return plan_launch(
            self._registry.require(name),
            self._host,
            action,
            session_id=None if ref is None else ref.native_session_id,
            prompt=prompt,
            cwd=cwd,
        )

    def start(self, launch: Launch) -> int:
        """Become the agent (where the system allows it), else run it; its exit code."""
        from amux.runs.launch import start

        return start(launch)

    def agents(self) -> tuple[AgentStatus, ...]:
        """Each agent: found where, how many sessions, from when to when."""
        from amux.sessions.overview import agent_statuses

        return agent_statuses(self._reader)

    def doctor(self, agent: str | None = None) -> tuple[RootReport, ...]:
        """Every file below the agents' roots, read or not and why; what will be lost next."""
        from amux.sessions.doctor import examine

        names = self._registry.names() if agent is None else (agent,)
        return examine(self._reader, names)

    def overview(self) -> Overview:
        """What a person wants to see first: agents, last sessions, this week's cost."""
        from amux.sessions.overview import make_overview

        return make_overview(self._reader, since=self._host.now() - timedelta(days=7))

    def close(self) -> None:
        """Nothing is held open; here for symmetry with `with`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def _registry(self) -> AdapterRegistry:
        from amux.sessions.registry import AdapterRegistry

        return AdapterRegistry()

    @cached_property
    def _library(self) -> Library:
        from amux.sessions.library import Library

        return Library(self._host, self._registry, self.config.agents)

    @cached_property
    def _reader(self) -> SessionReader:
        from amux.sessions.costing import Coster
        from amux.sessions.reader import SessionReader

        coster = Coster(self.models, self.run_index, today=self._host.now().date())
        return SessionReader(
            self._registry, self._library, coster, zone=self._zone(), now=self._host.now
        )

    def _zone(self) -> tzinfo:
        from zoneinfo import ZoneInfo

        return ZoneInfo(self.config.timezone)


def create_demo_client() -> Client:
    """A client on the built-in sample sessions, on the day they end."""
    from amux.demo import DEMO_NOW, demo_home

    return create_client(home=demo_home(), now=DEMO_NOW)
