"""A home with stand-ins for the agents, the stub server, and an oracle for processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from fake_programs import SERVER, install

from amux.client import Client
from amux.config import Config
from amux.host import Host
from amux.managed.processes import MARKER
from amux.managed.sessions import ManagedSessions


class ServerProcess:
    """A running stub of OpenCode's server."""

    def __init__(self, folder: Path, *, password: str = "", port: int = 0) -> None:
        self._folder = folder
        self._password = password
        self.start(port=port)

    def start(self, *, port: int = 0) -> None:
        script = self._folder / "server.py"
        script.write_text(SERVER, encoding="utf-8")
        env = {"PATH": os.environ["PATH"], "OPENCODE_SERVER_PASSWORD": self._password}
        served = str(self._folder / "served.json")
        words = [sys.executable, str(script), served, str(self.log), str(port)]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, env=env)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self._folder / "requests.jsonl"

    def requests(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for line in self.log.read_bytes().splitlines()]

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class ManagedHome:
    """A home directory with agents on its PATH and settings for managed sessions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.project = folder / "project"
        for each in (self.home, self.project):
            each.mkdir()
        self.bin = install(folder / "bin")
        self.base = self.home / ".local" / "share" / "multi-agent"
        self.settings: dict[str, Any] = {}
        self.env: dict[str, str] = {"HOME": str(self.home), "PATH": str(self.bin)}
        self.clients: list[Client] = []

    def configure(self, **agents: dict[str, Any]) -> None:
        self.settings.setdefault("agents", {}).update(agents)

    def client(self, host: Host | None = None) -> Client:
        host = host or Host(self.home, env=self.env)
        config = Config.load(host, overrides={"session_management": self.settings})
        client = Client(host, config=config, keeps_index=False)
        self.clients.append(client)
        return client

    @property
    def managed(self) -> ManagedSessions:
        """A new client: another process would see just as much."""
        return self.client().managed

    def calls(self, program: str | None = None) -> list[dict[str, Any]]:
        """What the programs were started with, without `--version`."""
        log = self.home / "argv.log"
        lines = log.read_bytes().splitlines() if log.exists() else []
        found = [msgspec.json.decode(line, type=dict[str, Any]) for line in lines]
        return [each for each in found if program in (None, each["program"])]

    def prompts(self, program: str | None = None) -> list[str]:
        """The prompts that programs have recorded, whichever way they received them."""
        log = self.home / "prompts.log"
        lines = log.read_bytes().splitlines() if log.exists() else []
        found = [msgspec.json.decode(line, type=tuple[str, str]) for line in lines]
        return [prompt for name, prompt in found if program in (None, name)]

    def living(self) -> list[int]:
        """The processes of managed sessions in this home; an oracle without our code."""
        return living(f"HOME={self.home}")

    def native_files(self) -> dict[str, bytes]:
        """Everything that the agents have written."""
        roots = (".claude", ".factory", ".local/share/opencode")
        return {
            str(path.relative_to(self.home)): path.read_bytes()
            for root in roots
            for path in sorted((self.home / root).rglob("*"))
            if path.is_file()
        }


def wait_until(is_true: Callable[[], object], *, seconds: float = 60.0) -> None:
    """Return when something is true; other processes take their time."""
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "it never happened"
        os.sched_yield()


def living(*variables: str) -> list[int]:
    """The processes of managed sessions that have these environment variables."""
    wanted = {variable.encode() for variable in variables}
    marker = f"{MARKER}=".encode()
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            environment = set((entry / "environ").read_bytes().split(b"\0"))
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            continue
        is_managed = any(each.startswith(marker) for each in environment)
        if state != "Z" and is_managed and wanted <= environment:
            found.append(int(entry.name))
    return found
