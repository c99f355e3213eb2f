"""`RunManager`: starts runs of the agents and records them in the run index."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from amux.errors import (
    ConfigError,
    DecisionRequiredError,
    SessionNotFoundError,
    ValidationError,
)
from amux.host import Host
from amux.launchers import LAUNCHERS, LaunchRequest
from amux.model.base import Model
from amux.model.cost import CostRecord
from amux.run_index import RecordedRun, RunIndex, append_run, index_file, new_run_id
from amux.runs.launch import Action, Launch, plan_launch, start
from amux.runs.process import GRACE_S, AgentProcess
from amux.runs.run import Run, RunResult, cost_of

if TYPE_CHECKING:
    from amux.pricing.registry import ModelRegistry
    from amux.reading.registry import AdapterRegistry

APPROVAL_MODES: Final = ("prompt", "yolo")
_OPTIONS: Final = frozenset({"args", "native", "grace"})


class SessionAddress(Model, frozen=True, kw_only=True):
    """A session that is resumed or forked, with the directory it worked in (None: unknown)."""

    agent: str
    session_id: str
    cwd: str | None = None


class RunManager:
    """Starts agents. Every run has a line at its start and one at its end in the run index.

    `find` returns the session that a caller names; `on_recorded` is called when the index has
    changed. Several threads may start runs.
    """

    def __init__(
        self,
        host: Host,
        registry: AdapterRegistry,
        *,
        find: Callable[[str, str | None], SessionAddress],
        read_index: Callable[[], RunIndex],
        models: Callable[[], ModelRegistry],
        default_agent: Callable[[], str | None],
        on_recorded: Callable[[], None],
    ) -> None:
        self._host, self._registry = host, registry
        self._find, self._read_index, self._models = find, read_index, models
        self._default_agent, self._on_recorded = default_agent, on_recorded

    def index(self) -> RunIndex:
        """Return the recorded runs, read anew."""
        return self._read_index()

    def run(
        self,
        agent: str | None = None,
        prompt: str | Sequence[str] = "",
        *,
        session: str | None = None,
        fork: str | None = None,
        no_session: bool = False,
        model: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        tags: Sequence[str] = (),
        approval_mode: str | None = None,
        timeout: float | None = None,
        inactivity_timeout: float | None = None,
        run_id: str | None = None,
        dry_run: bool = False,
        **options: object,
    ) -> Run:
        """Start an agent with a prompt, without a terminal, and return the run.

        Args:
            agent: Its name; by default that of the session, else `default_agent`.
            prompt: The prompt; several texts are joined by blank lines.
            session: The session to resume: a unified id, the beginning of an id, or a title.
            fork: The session to fork, named likewise.
            no_session: Keep no session.
            model: The model, in the words of the agent.
            cwd: The working directory; by default that of the session, else the current one.
            env: Variables in addition to those of the client.
            tags: Tags of the run, which its session gets, too.
            approval_mode: "yolo" lets the agent do everything without asking.
            timeout: The seconds after which the agent is stopped.
            inactivity_timeout: The seconds without any output after which it is stopped.
            run_id: The id of the run; by default a new ULID.
            dry_run: Return a run that was not started; its `launch` has the command.
            options: `args`, further arguments for the agent; `native`, true if the session's id is
                the agent's own and need not be looked up; `grace`, the seconds between SIGTERM and
                SIGKILL.

        Raises:
            ValidationError: Arguments exclude each other or have an impossible value.
            CapabilityError: The agent, or its installed version, cannot do that.
            SessionNotFoundError: No session has that name.
            DecisionRequiredError: The directory of the session is gone and `cwd` is not given.
            AmuxError: The agent is not installed, or cannot be started (SPAWN_ERROR).
            ConfigError: The run index cannot be written; the agent was not started.
        """
        _check_options(options)
        _check_seconds(timeout=timeout, inactivity_timeout=inactivity_timeout)
        text = prompt if isinstance(prompt, str) else "\n\n".join(prompt)
        launch = self.plan(
            agent,
            text,
            session=session,
            fork=fork,
            no_session=no_session,
            model=model,
            cwd=cwd,
            approval_mode=approval_mode,
            args=_words(options.get("args", ())),
            native=bool(options.get("native")),
        )
        grace = options.get("grace")
        return self.run_planned(
            launch,
            model=model,
            no_session=no_session,
            env=env,
            tags=tags,
            timeout=timeout,
            inactivity_timeout=inactivity_timeout,
            grace=grace if isinstance(grace, int | float) else GRACE_S,
            run_id=run_id,
            dry_run=dry_run,
        )

    def run_planned(
        self,
        launch: Launch,
        *,
        model: str | None = None,
        no_session: bool = False,
        env: Mapping[str, str] | None = None,
        tags: Sequence[str] = (),
        timeout: float | None = None,
        inactivity_timeout: float | None = None,
        grace: float = GRACE_S,
        run_id: str | None = None,
        dry_run: bool = False,
    ) -> Run:
        """Start a command that `plan` returned; the arguments and the errors are those of `run`."""
        now = self._host.now
        begun = RecordedRun(
            run_id=run_id or new_run_id(now()),
            agent=launch.agent,
            at=now(),
            model=model,
            session_id=launch.session_id if launch.action == "resume" else None,
            tags=_clean(tags),
        )
        if dry_run:
            return Run(launch, None, run_id=begun.run_id, now=now, model=model)
        append_run(index_file(self._host), begun)
        process = AgentProcess(
            launch.argv,
            cwd=launch.cwd,
            env={**self._host.env, **(env or {})},
            stdin=launch.stdin,
            timeout=timeout,
            inactivity_timeout=inactivity_timeout,
            grace=grace,
        )
        return Run(
            launch,
            process,
            run_id=begun.run_id,
            now=now,
            session_id=begun.session_id,
            model=model,
            on_end=lambda result: self._record_end(begun, result, no_session=no_session),
        )

    def plan(
        self,
        agent: str | None = None,
        prompt: str | None = None,
        *,
        session: str | None = None,
        fork: str | None = None,
        no_session: bool = False,
        model: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        approval_mode: str | None = None,
        interactive: bool = False,
        assigned_id: str | None = None,
        args: Sequence[str] = (),
        native: bool = False,
    ) -> Launch:
        """Return the command of a run; start nothing. Raises the errors of `run`.

        A command without a prompt, and one that is `interactive`, needs a terminal.
        """
        _check_exclusive(session=session, fork=fork, no_session=no_session)
        if prompt is not None and not prompt.strip():
            raise ValidationError("a run needs a prompt", fields=("prompt",))
        if approval_mode is not None and approval_mode not in APPROVAL_MODES:
            raise ValidationError(
                f"no approval mode is called `{approval_mode}`",
                fields=("approval_mode",),
                hint=f"known modes: {', '.join(APPROVAL_MODES)}",
            )
        for text in (prompt, model, *args):
            if text is not None and "\0" in text:
                raise ValidationError("an argument of a program cannot contain a NUL character")
        named = session if session is not None else fork
        address = None if named is None else self._address(named, agent, native=native)
        name = address.agent if address is not None else (agent or self._default_agent())
        if name is None:
            raise ValidationError("no agent is given", hint="name one, or set `default_agent`")
        action: Action = "new" if named is None else "resume" if fork is None else "fork"
        request = LaunchRequest(
            action,
            session_id=None if address is None else address.session_id,
            prompt=prompt,
            model=model,
            no_session=no_session,
            skips_approval=approval_mode == "yolo",
            is_interactive=interactive,
            is_structured=True,
            assigned_id=assigned_id,
            args=args,
        )
        adapter = self._registry.require(name)
        launch = plan_launch(adapter, self._host, request)
        return msgspec.structs.replace(
            launch, cwd=_directory(cwd, address), session_id=request.session_id
        )

    def start(
        self, launch: Launch, *, tags: Sequence[str] = (), session_id: str | None = None
    ) -> int:
        """Record a run and replace this process with the agent, which gets the terminal.

        There is no end line: this process is gone by then. On Windows the agent is run, and its
        exit code is returned.
        """
        now = self._host.now()
        run = RecordedRun(
            run_id=new_run_id(now),
            agent=launch.agent,
            at=now,
            session_id=session_id,
            tags=_clean(tags),
        )
        append_run(index_file(self._host), run)
        return start(launch, self._host.env)

    def assigns_ids(self, agent: str) -> bool:
        """Return whether a new session of an agent can be given an id."""
        launcher = LAUNCHERS.get(agent)
        return launcher is not None and launcher.assigns_ids()

    def _address(self, named: str, agent: str | None, *, native: bool) -> SessionAddress:
        """Return the session that a caller names; an unknown id of a named agent is its own."""
        if agent is not None:
            self._registry.require(agent)
            if native:
                return SessionAddress(agent=agent, session_id=named)
        try:
            return self._find(named, agent)
        except SessionNotFoundError as error:
            if agent is None or error.__class__ is not SessionNotFoundError:
                raise
            return SessionAddress(agent=agent, session_id=named)

    def _record_end(self, begun: RecordedRun, result: RunResult, *, no_session: bool) -> RunResult:
        """Add the end line of a run; return the result, with a warning if that failed."""
        cost = result.cost
        if cost is None and no_session:
            cost = self._estimate(result)  # no session will tell the tokens
        line = msgspec.structs.replace(
            begun,
            at=self._host.now(),
            session_id=None if no_session else result.session_id or begun.session_id,
            model=result.model or begun.model,
            cost=cost,
        )
        warnings = result.warnings
        try:
            append_run(index_file(self._host), line)
        except ConfigError as error:
            warnings = (*warnings, error.message)
        self._on_recorded()
        return msgspec.structs.replace(result, cost=cost, warnings=warnings)

    def _estimate(self, result: RunResult) -> CostRecord | None:
        """Return the cost of a run by the rates of its model; None if either is unknown."""
        usage, model = result.usage, result.model
        if usage is None or model is None or self._models().price(result.agent, model) is None:
            return None
        usd = self._models().estimate_cost(
            result.agent,
            model,
            usage.input,
            usage.output,
            cached_tokens=usage.cache_read,
            cache_write_tokens=usage.cache_write,
        )
        return cost_of(usd, usage)


def _directory(given: str | os.PathLike[str] | None, address: SessionAddress | None) -> str | None:
    """Return the working directory: the given one, else that of the session, else None."""
    if given is not None:
        path = os.path.abspath(given)  # noqa: PTH100 - resolves `..` and no links
        if not os.path.isdir(path):  # noqa: PTH112 - never raises
            raise ValidationError(f"`{path}` is not a directory", fields=("cwd",))
        return path
    if address is None or address.cwd is None:
        return None
    if not os.path.isdir(address.cwd):  # noqa: PTH112 - never raises
        raise DecisionRequiredError(
            f"the directory of the session no longer exists: `{address.cwd}`",
            kind="cwd",
            choices=("cwd",),
            hint="name another one with `--cwd`, for example `--cwd .`",
        )
    return address.cwd


def _check_exclusive(*, session: str | None, fork: str | None, no_session: bool) -> None:
    given = {"session": session is not None, "fork": fork is not None, "no_session": no_session}
    names = [name for name, is_given in given.items() if is_given]
    if len(names) > 1:
        joined = " and ".join(f"`{name}`" for name in names)
        raise ValidationError(f"{joined} cannot be combined", fields=names)


def _check_seconds(**limits: float | None) -> None:
    for name, seconds in limits.items():
        if seconds is not None and not seconds > 0:
            raise ValidationError(f"`{name}` must be a positive number of seconds", fields=(name,))


def _check_options(options: Mapping[str, object]) -> None:
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        raise ValidationError(
            f"unknown option `{unknown[0]}` of a run",
            fields=unknown,
            hint=f"known options: {', '.join(sorted(_OPTIONS))}",
        )


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(isinstance(word, str) for word in value):  # pyright: ignore[reportUnknownVariableType] # checked here
        return tuple(str(word) for word in value)  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType] # likewise
    raise ValidationError("`args` must be a list of texts", fields=("args",))


def _clean(tags: Sequence[str]) -> tuple[str, ...]:
    """Return distinct tags without white space around them."""
    if isinstance(tags, str):
        raise ValidationError("`tags` must be a list of texts", fields=("tags",))
    return tuple(dict.fromkeys(tag.strip() for tag in tags if tag.strip()))
