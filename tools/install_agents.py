"""Install the real agents that the live tests run, below build/.

    python tools/install_agents.py              those that `make test-full` runs
    python tools/install_agents.py --all        all agents of `tests/live/pins.toml`
    python tools/install_agents.py codex        this one
    python tools/install_agents.py codex latest this one, in another version

Each version has a folder, `build/agents/<agent>/<version>`, or `build/agents-py/<agent>/<version>`
if it is from PyPI. Its `bin` contains the agent's program and the runtime that it needs. A version
that is already there is not installed again. No install script runs, and nothing outside build/ is
changed.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PINS = ROOT / "tests" / "live" / "pins.toml"
NPM_FOLDER = ROOT / "build" / "agents"
PYPI_FOLDER = ROOT / "build" / "agents-py"

_PROCESSORS = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}
_NPM = (
    "npm", "install", "--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund",
    "--loglevel=error",
)  # fmt: skip
_PATIENCE_S = 600

Pin = dict[str, Any]


def pins() -> dict[str, Pin]:
    """Return the table of agents, without the runtimes."""
    return {name: pin for name, pin in _table().items() if name != "runtimes"}


def folder_of(agent: str, version: str | None = None) -> Path:
    """Return the folder of a version of an agent; by default the pinned one."""
    pin = pins()[agent]
    top = PYPI_FOLDER if "pypi" in pin else NPM_FOLDER
    return top / agent / (version or pin["version"])


def latest_version(agent: str) -> str:
    """Return the newest version that the registry has."""
    pin = pins()[agent]
    if "pypi" in pin:
        said = _output(sys.executable, "-m", "pip", "-q", "index", "versions", pin["pypi"])
        return said.split("(", 1)[1].split(")", 1)[0]
    return _output("npm", "view", _package(pin), "version", "--loglevel=error").strip()


def install(agent: str, version: str | None = None) -> Path:
    """Install one agent, and return its folder."""
    pin = {**pins()[agent]}
    pin["version"] = version or pin["version"]
    return _install(agent, pin, folder_of(agent, version))


def _install(name: str, pin: Pin, folder: Path) -> Path:
    stamp = folder / ".installed"
    if stamp.exists():
        return folder
    began = time.monotonic()
    print(f"installing {name} {pin['version']} into {folder.relative_to(ROOT)}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if "pypi" in pin:
        _from_pypi(pin, folder)
    else:
        _from_npm(pin, folder)
    _link_programs(name, pin, folder)
    stamp.write_text(f"{time.monotonic() - began:.1f} s\n")
    return folder


def _from_pypi(pin: Pin, folder: Path) -> None:
    _run(sys.executable, "-m", "venv", str(folder))
    quiet = ("-m", "pip", "-qq", "--disable-pip-version-check")
    wanted = f"{pin['pypi']}=={pin['version']}"
    _run(str(folder / "bin" / "python"), *quiet, "install", wanted)


def _from_npm(pin: Pin, folder: Path) -> None:
    package = _package(pin)
    wanted: dict[str, str] = {**pin.get("extra", {})}
    if not pin.get("bundled"):
        wanted[package] = pin["version"]
    manifest = {"private": True, "dependencies": wanted}
    (folder / "package.json").write_text(json.dumps(manifest, indent=2) + "\n")
    _run(*_NPM, "--prefix", str(folder))
    if pin.get("bundled"):
        _unpack(f"{package}@{pin['version']}", folder / "node_modules" / package)


def _unpack(package: str, target: Path) -> None:
    """Unpack a package without its dependencies."""
    with tempfile.TemporaryDirectory() as scratch:
        _run("npm", "pack", "--silent", "--pack-destination", scratch, package)
        (archive,) = Path(scratch).glob("*.tgz")
        with tarfile.open(archive) as members:
            members.extractall(scratch, filter="data")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(Path(scratch) / "package", target)


def _link_programs(name: str, pin: Pin, folder: Path) -> None:
    """Put the program of the agent, and its runtime, into `bin`."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    runtime = pin.get("runtime")
    if runtime is not None:
        needed: Pin = _table()["runtimes"][runtime]
        home = _install(runtime, needed, NPM_FOLDER / runtime / needed["version"])
        _link(programs / runtime, home / "bin" / runtime)
    candidates = sorted(folder.glob(pin["program"]), key=lambda path: len(str(path)))
    for candidate in candidates:  # an npm that does not know the libc installs one for each
        candidate.chmod(0o755)
        if candidate.parent != programs:
            _link(programs / name, candidate)
        if _runs(programs / name):
            return
    sys.exit(f"error: no program of {name} {pin['version']} runs on this machine")


def _link(link: Path, target: Path) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(target, link.parent))


def _runs(program: Path) -> bool:
    """Return whether a program can say its version."""
    with tempfile.TemporaryDirectory() as home:
        environment = {"HOME": home, "PATH": f"{program.parent}{os.pathsep}{os.defpath}"}
        try:
            done = subprocess.run(
                [program, "--version"],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PATIENCE_S,
                check=False,
            )
        except OSError:
            return False  # built for another libc
        return done.returncode == 0


def _table() -> dict[str, Any]:
    return tomllib.loads(PINS.read_text(encoding="utf-8"))


def _package(pin: Pin) -> str:
    machine = platform.machine().lower()
    words = (platform.system().lower(), _PROCESSORS.get(machine, machine))
    return str(pin["package"]).replace("{platform}", "-".join(words))


def _run(*command: str) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=sys.stderr, timeout=_PATIENCE_S, check=False
    )
    if done.returncode != 0:
        sys.exit(f"error: `{' '.join(command[:2])}` failed with exit code {done.returncode}")


def _output(*command: str) -> str:
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def main(words: list[str]) -> None:
    """Install what the command line names."""
    known = pins()
    if words and words[0] not in known and words != ["--all"]:
        sys.exit(f"error: no agent is called `{words[0]}`; known: {', '.join(known)}")
    if words and words != ["--all"]:
        version = words[1] if len(words) > 1 else None
        install(words[0], latest_version(words[0]) if version == "latest" else version)
        return
    for agent, pin in known.items():
        if words or pin.get("full"):
            install(agent)


if __name__ == "__main__":
    main(sys.argv[1:])
