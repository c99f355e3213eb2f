"""A real agent in a home of its own, started by amux and connected to the fake model alone.

`make agents` installs the versions that `pins.toml` names; an agent that is missing fails the test
with one sentence, and nothing is skipped. An agent inherits no variable but PATH, has no network
access (its proxy is the fake model, which refuses), and is killed with all its child processes when
its time is up.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
import tomllib
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import pytest
from fake_model import FakeModel, fake_model
from model_protocols import Reply, Tool

from amux.client import Client, create_client
from amux.runs.run import Run, RunResult

_HERE: Final = Path(__file__).parent
_BUILD: Final = _HERE.parents[1] / "build"
_TIMEOUT_S: Final = 90
"""A run takes a few seconds; this is for a machine that does much else."""
_GLANCE_S: Final = 0.02
_FAREWELL_S: Final = 2.0
_ID_LENGTH: Final = 36

PINS: Final[dict[str, dict[str, Any]]] = tomllib.loads((_HERE / "pins.toml").read_text())
WANTED_AGENT: Final = os.environ.get("AMUX_LIVE_AGENT")
"""The one that `make live` names, or `all`. Read here: no variable of amux is set during a test."""
WANTED_VERSION: Final = os.environ.get("AMUX_LIVE_VERSION")


def version_of(agent: str) -> str:
    """The version that is tested: the pinned one, unless `make live` names another."""
    if agent == WANTED_AGENT and WANTED_VERSION:
        return WANTED_VERSION
    return str(PINS[agent]["version"])


class LiveRun:
    """A run under way. A thread reads its events, which is also what gives it its prompt."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._reader = threading.Thread(target=run.wait)
        self._reader.start()

    @property
    def group(self) -> int:
        """The process group of the agent."""
        assert self._run.pid is not None
        return self._run.pid

    def wait(self) -> RunResult:
        self._reader.join()
        return self._run.wait()

    def end(self, sign: signal.Signals = signal.SIGKILL) -> RunResult:
        """Stop the agent and all it started; SIGKILL is how a crash looks."""
        if self._run.is_active:
            with suppress(ProcessLookupError):  # it has just ended by itself
                os.killpg(self.group, sign)
        return self.wait()

    @contextmanager
    def frozen(self) -> Generator[None]:
        """The agent as it stands in the middle of its work: it moves no more, so that what changes
        in its home was changed by somebody else.
        """
        os.killpg(self.group, signal.SIGSTOP)
        try:
            _, status = os.waitpid(self.group, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            yield
        finally:
            os.killpg(self.group, signal.SIGCONT)


@dataclass
class Agent:
    """What running any agent takes. `project` is the directory it works in."""

    home: Path
    model: FakeModel

    name: ClassVar[str]  # as amux calls it
    label: ClassVar[str]
    stores: ClassVar[tuple[str, ...]]  # patterns below the home: files that hold prompts
    args: ClassVar[tuple[str, ...]] = ()  # further arguments of every run
    approval: ClassVar[str | None] = None
    wanted_model: ClassVar[str | None] = None  # as an argument of every run
    recorded_model: ClassVar[str | None] = None  # None: as the model server is asked for it
    unrecorded: ClassVar[tuple[str, ...]] = ()  # buckets that its files do not have
    abandons_killed_prompt: ClassVar[bool] = False  # whether it goes on from the answer before it
    detaches_child: ClassVar[bool] = False  # whether it works in a process outside of its group
    made_title: ClassVar[str | None] = None  # the one that it asks the model for
    side_paths: ClassVar[tuple[str, ...]] = ()
    looks_outside: ClassVar[tuple[str, ...]] = ()  # hosts that it tries to reach, and cannot

    def __post_init__(self) -> None:
        self.project.mkdir(parents=True)
        self.configure()

    @property
    def project(self) -> Path:
        return self.home / "src" / "my-app"

    def configure(self) -> None:
        """Write the settings the agent needs."""

    def variables(self) -> dict[str, str]:
        """The agent's own environment variables."""
        return {}

    @classmethod
    def shell(cls, command: str) -> Tool:
        """The agent's tool that runs a command."""
        raise NotImplementedError

    def ask(
        self,
        prompt: str,
        *,
        resume: str | None = None,
        fork: str | None = None,
        tags: Sequence[str] = (),
    ) -> RunResult:
        """One run from prompt to end."""
        with self.running(prompt, resume=resume, fork=fork, tags=tags) as run:
            return self.finish(run)

    def finish(self, run: LiveRun) -> RunResult:
        """Wait for a run to end well."""
        result = run.wait()
        assert result.status == "ok", f"{self.label} failed: {result.error} {self.model.refused}"
        return result

    @contextmanager
    def running(
        self,
        prompt: str,
        *,
        resume: str | None = None,
        fork: str | None = None,
        tags: Sequence[str] = (),
    ) -> Generator[LiveRun]:
        """A run under way, whose processes do not outlive the block."""
        started = self.client().run(
            self.name,
            prompt,
            session=resume,
            fork=fork,
            tags=tags,
            cwd=self.project,
            model=self.wanted_model,
            approval_mode=self.approval,
            args=self.args,
            timeout=_TIMEOUT_S,
            grace=1.0,
        )
        run = LiveRun(started)
        try:
            yield run
        finally:
            run.end()

    def client(self) -> Client:
        """A client that starts this agent and no other."""
        return create_client(home=self.home, env=self.environment())

    def environment(self) -> dict[str, str]:
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), self.model.url)
        return {
            "PATH": f"{programs_of(self.name)}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home),
            "TZ": "UTC",
            "LANG": "C.UTF-8",
            "NO_PROXY": "127.0.0.1,localhost",
            **proxies,
            **self.variables(),
        }

    def wait_until_half_way(self, *, written: str | None) -> None:
        """Until the model has stopped in the middle of its answer and, as agents write with some
        delay, a file of the store holds this pattern.
        """
        deadline = time.monotonic() + _TIMEOUT_S
        assert self.model.stalled.wait(_TIMEOUT_S), f"{self.label} never asked that far"
        if written is None:
            return
        wanted = re.compile(written.encode(), re.DOTALL)
        while not any(wanted.search(_content(path)) for path in self.store_files()):
            assert time.monotonic() < deadline, f"{self.label} never wrote `{written}`"
            time.sleep(_GLANCE_S)

    def store_files(self) -> list[Path]:
        return [path for pattern in self.stores for path in self.home.glob(pattern)]

    def sole_session(self) -> str:
        """The id of the only session in the home: the end of its file's name."""
        (transcript,) = self.store_files()
        return transcript.stem[-_ID_LENGTH:]

    def left_behind(self) -> list[str]:
        """The command lines of the processes of this home that do not go away; a killed one may
        take a moment.
        """
        deadline = time.monotonic() + _FAREWELL_S
        while (found := self._processes()) and time.monotonic() < deadline:
            time.sleep(_GLANCE_S)
        return [_command_line(process) for process in found]

    def kill(self, run: LiveRun) -> RunResult:
        """Let the agent crash: its process group, and a child that it keeps outside of it."""
        children = self._processes() if self.detaches_child else []
        result = run.end()
        for child in children:
            with suppress(ProcessLookupError):  # it was in the group
                os.kill(child, signal.SIGKILL)
        return result

    def _processes(self) -> list[int]:
        """The processes whose home is this one."""
        mark = f"HOME={self.home}\0".encode()
        processes = (int(folder.name) for folder in Path("/proc").glob("[0-9]*"))
        return [one for one in processes if mark in _content(Path(f"/proc/{one}/environ"))]


AnyAgent = TypeVar("AnyAgent", bound=Agent)


@contextmanager
def scripted(
    agent: type[AnyAgent], home: Path, script: Mapping[str, Sequence[Reply]]
) -> Generator[AnyAgent]:
    """An agent in a new home; in the end every request it made must have been foreseen, and no
    process of it may be left.
    """
    with fake_model(script, side_paths=agent.side_paths) as model:
        subject = agent(home.resolve(), model)
        yield subject
        assert subject.left_behind() == []
    tolerated = tuple(f"CONNECT {host}" for host in agent.looks_outside)
    unforeseen = [what for what in model.refused if not what.startswith(tolerated or ("\0",))]
    assert unforeseen == []


def session_of(result: RunResult) -> str:
    """The session of a run, which every run of a live agent has."""
    assert result.session_id is not None
    return result.session_id


def programs_of(agent: str) -> Path:
    """The folder with the agent's own program."""
    top = "agents-py" if "pypi" in PINS[agent] else "agents"
    version = version_of(agent)
    folder = _BUILD / top / agent / version
    if not (folder / ".installed").exists():
        pytest.fail(
            f"{agent} {version} is not installed below build/{top}; "
            "install Node.js 20 or newer with npm, then run `make agents`",
            pytrace=False,
        )
    return folder / "bin"


def _command_line(process: int) -> str:
    words = _content(Path(f"/proc/{process}/cmdline")).decode(errors="replace").split("\0")
    return " ".join(words).strip()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()  # somebody may be writing it
    except OSError:
        return b""
