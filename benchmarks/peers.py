"""The programs that amux is compared with: installed below build/, each with a separate home.

They come from npm and PyPI in the versions of `peers/` and do not need the network afterwards. A
home is a copy with hard links: a program may add files to it without changing the corpus.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from corpus_session import FIELDS
from measure import Failure

_FILES: Final = Path(__file__).parent / "peers"
_QUIET: Final = {
    "DO_NOT_TRACK": "1",
    "AGENTSVIEW_NO_DAEMON": "1",
    "AGENTSVIEW_NO_BROWSER": "1",
    "AGENTSVIEW_TELEMETRY_ENABLED": "0",
    "AGENTSVIEW_DISABLE_UPDATE_CHECK": "1",
    "PATH": os.environ.get("PATH", os.defpath),
}

Tokens = dict[str, dict[str, int]]
"""The sums by agent and by the names of `corpus_session.FIELDS`."""


class Peers:
    """The paths of the programs. `failures` names those that could not be installed."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._node = place / "npm" / "node_modules"
        self._bin = place / "venv" / "bin"
        self.failures: dict[str, Failure] = {}

    def install(self) -> None:
        """Install the programs that are missing in the required versions."""
        for names, install, files in (
            ("ccusage tokscale", self._install_npm, "package.json"),
            ("agentsview claude-agent-sdk", self._install_pypi, "requirements.txt"),
        ):
            try:
                self._once(_FILES / files, install)
            except OSError as error:
                self._give_up(names, f"{error.strerror}: {error.filename}")
            except subprocess.CalledProcessError as error:
                self._give_up(names, f"{Path(error.cmd[0]).name} ended with {error.returncode}")

    def _give_up(self, names: str, reason: str) -> None:
        for name in names.split():
            self.failures[name] = Failure(f"could not be installed ({reason})")

    def _once(self, wanted: Path, install: Callable[[Path], None]) -> None:
        stamp = self._place / wanted.name
        if stamp.is_file() and stamp.read_bytes() == wanted.read_bytes():
            return
        print(f"installing the peers of {wanted.name}", file=sys.stderr, flush=True)
        install(wanted)
        self._place.mkdir(parents=True, exist_ok=True)
        shutil.copy(wanted, stamp)

    def _install_npm(self, wanted: Path) -> None:
        folder = self._place / "npm"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.copy(wanted, folder)
        options = "--ignore-scripts --no-package-lock --no-audit --no-fund --loglevel=error"
        subprocess.run(["npm", "install", "--prefix", str(folder), *options.split()], check=True)
        for program in (*self._natives("ccusage"), *self._natives("bun")):
            program.chmod(0o755)  # no install script has run

    def _install_pypi(self, wanted: Path) -> None:
        folder = self._place / "venv"
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(self._bin / "python"), "-m", "pip", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "-r", str(wanted)], check=True)

    def _natives(self, name: str) -> list[Path]:
        """Return the programs in the packages that npm has selected for this platform."""
        return sorted(self._node.glob(f"@*/{name}-*/bin/{name}"))

    def _native(self, name: str) -> str:
        return str(next(iter(self._natives(name)), Path(name)))

    def ccusage(self) -> list[str]:
        """Return the command for all tokens by day, without the launcher in JavaScript."""
        return [self._native("ccusage"), "daily", "--offline", "--json"]

    def tokscale(self) -> list[str]:
        """Return the command for all tokens by model."""
        return [self._native("bun"), str(self._node / "tokscale" / "bin.js"), "models", "--json"]

    def agentsview(self, *words: str) -> list[str]:
        """Return a command of agentsview, without its launcher in Python."""
        found = self._place.glob("venv/lib/python*/site-packages/agentsview/bin/agentsview")
        return [str(next(found, Path("agentsview"))), *words]

    def list_sessions(self) -> list[str]:
        """Return the command that lists sessions with Claude's own library."""
        program = "from claude_agent_sdk import list_sessions; print(len(list_sessions()))"
        return [str(self._bin / "python"), "-c", program]


def peer_env(home: Path) -> dict[str, str]:
    """Return variables that disable tracking, updates and daemons."""
    return {**_QUIET, "HOME": str(home)}


def make_home(corpus: Path, home: Path) -> None:
    """Create a new copy of a corpus with hard links."""
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(corpus, home, copy_function=os.link)


def plant_prices(home: Path) -> None:
    """Write an empty table of prices; without it, tokscale needs the network and counts nothing."""
    folder = home / ".cache" / "tokscale"
    folder.mkdir(parents=True, exist_ok=True)
    table = json.dumps({"timestamp": int(time.time()), "data": {}})
    for name in ("pricing-litellm.json", "pricing-openrouter.json"):
        (folder / name).write_text(table, encoding="utf-8")


def daily_tokens(output: Path) -> Tokens:
    """Return the counts of ccusage or agentsview; the agent follows from the model."""
    counted = _nothing()
    names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheCreationTokens")
    for day in _load(output)["daily"]:
        for entry in day["modelBreakdowns"]:
            _add(counted, _agent_of(entry["modelName"]), entry, names)
    return counted


def tokscale_tokens(output: Path) -> Tokens:
    """Return the counts of tokscale."""
    counted = _nothing()
    for entry in _load(output)["entries"]:
        _add(counted, entry["source"], entry, ("input", "output", "cacheRead", "cacheWrite"))
    return counted


def amux_tokens(output: Path) -> Tokens:
    """Return the counts of amux."""
    counted = _nothing()
    for agent, entry in _load(output)["breakdowns"].items():
        names = ("inputTokens", "outputTokens", "cachedTokens", "cacheWriteTokens")
        _add(counted, agent, entry, names)
    return counted


def _load(output: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    return loaded


def _nothing() -> Tokens:
    return {agent: dict.fromkeys(FIELDS, 0) for agent in ("claude", "codex")}


def _agent_of(model: str) -> str:
    return "codex" if model.startswith("gpt") else "claude"


def _add(
    counted: Tokens, agent: str, entry: Mapping[str, Any], names: tuple[str, str, str, str]
) -> None:
    for field, name in zip(FIELDS, names, strict=False):
        counted[agent][field] += entry[name]
