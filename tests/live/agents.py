"""The real agents, each in a separate home, connected to the fake model alone.

`make agents` installs the versions that `package.json` names. An agent that is missing or has
another version fails the test with one sentence; nothing is skipped. An agent inherits no variable
but PATH, has no network access (its proxy is the fake model, which refuses), and is killed with all
its child processes when its time is up.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import pytest
from fake_model import FakeModel, Reply, fake_model

_HERE: Final = Path(__file__).parent
_PACKAGES: Final = _HERE.parents[1] / "build" / "agents" / "node_modules"
_TIMEOUT_S: Final = 60
"""A run takes two seconds; this is for a machine that does much else."""
_GLANCE_S: Final = 0.02
_ID_LENGTH: Final = 36


@dataclass(frozen=True)
class Run:
    """One run that ended: which session it was, and what the agent itself said it cost."""

    session_id: str
    usd: float | None = None


@dataclass
class Agent:
    """What running any agent takes. `project` is the directory it works in."""

    home: Path
    model: FakeModel

    name: ClassVar[str]  # as amux calls it
    package: ClassVar[str]
    binaries: ClassVar[str]  # a pattern below the installed packages
    transcripts: ClassVar[str]  # a pattern below the home

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
        raise NotImplementedError

    def words(self, prompt: str, *, resume: str | None, fork: str | None) -> list[str]:
        """The command line after the name of the program."""
        raise NotImplementedError

    def understand(self, output: str) -> Run:
        """Take what is wanted from the agent's JSON output."""
        raise NotImplementedError

    def ask(self, prompt: str, *, resume: str | None = None, fork: str | None = None) -> Run:
        """One run from prompt to end."""
        with self.running(prompt, resume=resume, fork=fork) as process:
            return self.finish(process)

    def finish(self, process: subprocess.Popen[str]) -> Run:
        """Wait for a run to end well."""
        output, complaint = process.communicate(timeout=_TIMEOUT_S)
        assert process.returncode == 0, f"{self.package} failed: {output[-800:]}{complaint[-800:]}"
        return self.understand(output)

    @contextmanager
    def running(
        self, prompt: str, *, resume: str | None = None, fork: str | None = None
    ) -> Generator[subprocess.Popen[str]]:
        """A run under way, in a process group of its own that does not outlive the block."""
        command = [
            installed(self.package, self.binaries),
            *self.words(prompt, resume=resume, fork=fork),
        ]
        with subprocess.Popen(
            command,
            cwd=self.project,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                end(process)

    def wait_until_half_way(self, *, written: str) -> None:
        """Until the model has stopped in the middle of its answer and, as agents write with some
        delay, a transcript holds this pattern.
        """
        deadline = time.monotonic() + _TIMEOUT_S
        assert self.model.stalled.wait(_TIMEOUT_S), f"{self.package} never asked that far"
        wanted = re.compile(written, re.DOTALL)
        while not any(wanted.search(_text(p)) for p in self.home.glob(self.transcripts)):
            assert time.monotonic() < deadline, f"{self.package} never wrote `{written}`"
            time.sleep(_GLANCE_S)

    def sole_session(self) -> str:
        """The id of the only session in the home: the end of its file's name."""
        (transcript,) = self.home.glob(self.transcripts)
        return transcript.stem[-_ID_LENGTH:]

    def _environment(self) -> dict[str, str]:
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), self.model.url)
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TZ": "UTC",
            "LANG": "C.UTF-8",
            "NO_PROXY": "127.0.0.1,localhost",
            **proxies,
            **self.variables(),
        }


AnyAgent = TypeVar("AnyAgent", bound=Agent)


class Claude(Agent):
    """Claude Code, printing the result as JSON."""

    name = "claude"
    package = "@anthropic-ai/claude-code"
    binaries = "@anthropic-ai/claude-code-*/claude"
    transcripts = ".claude/projects/*/*.jsonl"

    def variables(self) -> dict[str, str]:
        quiet = (
            "DISABLE_TELEMETRY",
            "DISABLE_ERROR_REPORTING",
            "DISABLE_AUTOUPDATER",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        )
        return {
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": "not-a-key",
            "CLAUDE_CODE_MAX_RETRIES": "0",
            **dict.fromkeys(quiet, "1"),
        }

    def words(self, prompt: str, *, resume: str | None, fork: str | None) -> list[str]:
        # As root it refuses to skip its permission checks; the allowed tools it takes.
        common = ["-p", "--output-format", "json", "--model", "claude-opus-5-5"]
        history = ["--resume", resume] if resume else []
        if fork:
            history = ["--resume", fork, "--fork-session"]
        return [*common, "--allowedTools", "Bash,Agent", *history, "--", prompt]

    def understand(self, output: str) -> Run:
        said: dict[str, Any] = json.loads(output)
        return Run(str(said["session_id"]), float(said["total_cost_usd"]))


class Codex(Agent):
    """Codex, printing its events as JSON lines."""

    name = "codex"
    package = "@openai/codex"
    binaries = "@openai/codex-*/vendor/*/bin/codex"
    transcripts = ".codex/sessions/*/*/*/*.jsonl"

    def configure(self) -> None:
        settings = self.home / ".codex" / "config.toml"
        settings.parent.mkdir()
        settings.write_text(_CODEX_SETTINGS.format(url=self.model.url, project=self.project))

    def variables(self) -> dict[str, str]:
        return {"FAKE_API_KEY": "not-a-key"}

    def words(self, prompt: str, *, resume: str | None, fork: str | None) -> list[str]:
        history = ["resume", resume] if resume else []
        if fork:
            history = ["fork", fork]
        return ["exec", *history, "--json", "--skip-git-repo-check", prompt]

    def understand(self, output: str) -> Run:
        events: list[dict[str, Any]] = [json.loads(line) for line in output.splitlines()]
        return Run(next(str(e["thread_id"]) for e in events if e["type"] == "thread.started"))


_CODEX_SETTINGS: Final = """
model = "gpt-5.5"
model_provider = "fake"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
env_key = "FAKE_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false

[features] # these look outside or stay behind
apps = false
plugins = false
daemon_auto_start = false
enable_request_compression = false

[projects."{project}"]
trust_level = "trusted"
"""


@contextmanager
def scripted(
    agent: type[AnyAgent], home: Path, script: Mapping[str, Sequence[Reply]]
) -> Generator[AnyAgent]:
    """An agent in a new home; in the end every request it made must have been foreseen."""
    with fake_model(script) as model:
        yield agent(home.resolve(), model)
    assert model.refused == []


def end(process: subprocess.Popen[str], sign: signal.Signals = signal.SIGKILL) -> None:
    """Stop a run and all it started; SIGKILL is how a crash looks. An ended run stays as it is."""
    if process.poll() is None:
        os.killpg(process.pid, sign)
        process.wait(_TIMEOUT_S)


@contextmanager
def frozen(process: subprocess.Popen[str]) -> Generator[None]:
    """The agent as it stands in the middle of its work: it moves no more, so that what changes
    in its home was changed by somebody else.
    """
    os.killpg(process.pid, signal.SIGSTOP)
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        yield
    finally:
        os.killpg(process.pid, signal.SIGCONT)


@cache
def installed(package: str, binaries: str) -> str:
    """The agent's own program, of exactly the version that was asked for."""
    pins: dict[str, Any] = json.loads((_HERE / "package.json").read_bytes())
    wanted = str(pins["dependencies"][package])
    candidates = sorted(_PACKAGES.glob(binaries), key=lambda path: len(str(path)))
    for candidate in candidates:  # an npm that does not know libc installs one for each
        if wanted in _version_of(candidate):
            return str(candidate)
    pytest.fail(
        f"{package} {wanted} is not installed below build/agents; "
        "install Node.js 18 or newer with npm, then run `make agents`",
        pytrace=False,
    )


def _version_of(program: Path) -> str:
    try:
        done = subprocess.run(
            [str(program), "--version"],
            env={"HOME": "/nonexistent", "PATH": os.defpath},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except OSError:
        return ""  # built for another libc
    return done.stdout


def _text(path: Path) -> str:
    return path.read_text(errors="replace")  # somebody is writing it
