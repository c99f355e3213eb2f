"""The programs amux is compared with: installed below build/, each with a home of its own.

They come from npm and PyPI in the versions of `peers/`. Nothing they do needs the network
afterwards. A home is a copy by hard links: a program may put files of its own into it, and the
corpus stays as it is.
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
"""By agent, by the names of `corpus_session.FIELDS`."""


class Peers:
    """Where the programs are; what could not be installed stands in `failures`."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._node = place / "npm" / "node_modules"
        self._bin = place / "venv" / "bin"
        self.failures: dict[str, Failure] = {}

    def install(self) -> None:
        """Install what is not there yet in the versions wanted."""
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
        """The programs of this platform in the packages that npm has chosen for it."""
        return sorted(self._node.glob(f"@*/{name}-*/bin/{name}"))

    def _native(self, name: str) -> str:
        return str(next(iter(self._natives(name)), Path(name)))

    def ccusage(self) -> list[str]:
        """All tokens by day. The program itself, without its launcher in JavaScript."""
        return [self._native("ccusage"), "daily", "--offline", "--json"]

    def tokscale(self) -> list[str]:
        """All tokens by model."""
        return [self._native("bun"), str(self._node / "tokscale" / "bin.js"), "models", "--json"]

    def agentsview(self, *words: str) -> list[str]:
        """A command of it. The program itself, without its launcher in Python."""
        found = self._place.glob("venv/lib/python*/site-packages/agentsview/bin/agentsview")
        return [str(next(found, Path("agentsview"))), *words]

    def list_sessions(self) -> list[str]:
        """The list of Claude's own library."""
        program = "from claude_agent_sdk import list_sessions; print(len(list_sessions()))"
        return [str(self._bin / "python"), "-c", program]


def peer_env(home: Path) -> dict[str, str]:
    """Variables that ask for no tracking, no updates and no daemon."""
    return {**_QUIET, "HOME": str(home)}


def make_home(corpus: Path, home: Path) -> None:
    """A copy of a corpus by hard links, made anew."""
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(corpus, home, copy_function=os.link)


def plant_prices(home: Path) -> None:
    """An empty table of prices: without one, tokscale asks the network and counts nothing."""
    folder = home / ".cache" / "tokscale"
    folder.mkdir(parents=True, exist_ok=True)
    table = json.dumps({"timestamp": int(time.time()), "data": {}})
    for name in ("pricing-litellm.json", "pricing-openrouter.json"):
        (folder / name).write_text(table, encoding="utf-8")


def daily_tokens(output: Path) -> Tokens:
    """What ccusage or agentsview has counted; whose tokens they are follows from the model."""
    counted = _nothing()
    names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheCreationTokens")
    for day in _load(output)["daily"]:
        for entry in day["modelBreakdowns"]:
            _add(counted, _agent_of(entry["modelName"]), entry, names)
    return counted


def tokscale_tokens(output: Path) -> Tokens:
    """What tokscale has counted."""
    counted = _nothing()
    for entry in _load(output)["entries"]:
        _add(counted, entry["source"], entry, ("input", "output", "cacheRead", "cacheWrite"))
    return counted


def amux_tokens(output: Path) -> Tokens:
    """What amux has counted."""
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
