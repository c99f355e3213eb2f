"""The adapter in `examples/amux-notes`, as it works for a user who installed the package.

Nothing is registered and nothing of the package is imported here: it is on the path of other
processes, with the metadata that an installer would have written.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from child_processes import SOURCES, child_env

from amux.testing import fingerprint

PACKAGE = Path(__file__).parent.parent / "examples" / "amux-notes"
LONGEST = 120


class Installed:
    """A copy of the package and the environment of a process that sees it."""

    def __init__(self, place: Path) -> None:
        self.package = place / PACKAGE.name
        shutil.copytree(PACKAGE, self.package, ignore=shutil.ignore_patterns("__pycache__"))
        self.home = self.package / "tests" / "captures" / "notes" / "1.0" / "home"
        site = place / "site"
        write_metadata(self.package / "pyproject.toml", site)
        self.env = {
            **child_env(),
            "HOME": str(self.home),
            "USERPROFILE": str(self.home),
            "PYTHONPATH": os.pathsep.join((str(site), str(self.package / "src"), SOURCES)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "AMUX_CACHE_DIR": str(place / "cache"),
        }

    def run(self, *words: str, without_package: bool = False) -> subprocess.CompletedProcess[str]:
        env = dict(self.env)
        if without_package:
            env["PYTHONPATH"] = SOURCES
        return subprocess.run(
            [sys.executable, *words],
            env=env,
            cwd=self.package,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def amux(self, *words: str) -> Any:
        done = self.run("-m", "amux", *words, "--json", "--quiet")
        assert (done.returncode, done.stderr) == (0, "")
        return msgspec.json.decode(done.stdout)


def write_metadata(pyproject: Path, site: Path) -> None:
    """What an installer makes of the project table."""
    project: dict[str, Any] = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    name, version = str(project["name"]), str(project["version"])
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups: dict[str, dict[str, str]] = project["entry-points"]
    lines = [
        line
        for group, points in groups.items()
        for line in (f"[{group}]", *(f"{point} = {target}" for point, target in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


def test_the_package_passes_the_published_suite(installed: Installed) -> None:
    place = f"--basetemp={installed.package.parent / 'tmp'}"  # else it tidies up what we left
    words = ("-q", "-W", "error", "-p", "no:cacheprovider", place, "tests")
    done = installed.run("-m", "pytest", *words)
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout


def test_an_installed_agent_is_listed_among_the_others(installed: Installed) -> None:
    agents = {agent["name"]: agent for agent in installed.amux("agents")}
    assert "claude" in agents
    notes = agents["notes"]
    assert (notes["tier"], notes["label"], notes["sessionCount"]) == ("plugin", "Notes", 2)
    assert (notes["canResume"], notes["canFork"], notes["version"]) == (True, False, "1.0")


def test_the_sessions_of_an_installed_agent_are_read_without_a_trace(installed: Installed) -> None:
    before = fingerprint(installed.home)
    expected = msgspec.json.decode((installed.home.parent / "expected.json").read_bytes())
    listed = installed.amux("list", "notes")
    assert {(each["sessionId"], each["title"]) for each in listed} == {
        (each["session_id"], each["title"]) for each in expected["sessions"]
    }
    total, truth = installed.amux("cost", "-a", "notes"), expected["home_totals"]
    assert total["inputTokens"] == truth["tokens_recoverable"]["input"]
    assert total["outputTokens"] == truth["tokens_recoverable"]["output"]
    assert [hit["sessionId"] for hit in installed.amux("search", "cherries")] == ["lists"]
    assert fingerprint(installed.home) == before


def test_without_the_package_the_agent_is_unknown(installed: Installed) -> None:
    done = installed.run("-m", "amux", "list", "notes", without_package=True)
    assert done.returncode == 3
    assert "no agent is called `notes`" in done.stderr


def test_the_example_stays_short_and_uses_public_names_only() -> None:
    source = (PACKAGE / "src" / "amux_notes" / "__init__.py").read_text(encoding="utf-8")
    imports = [line for line in source.splitlines() if "import" in line.split() and "amux" in line]
    assert len(source.splitlines()) < LONGEST
    assert [line.split()[1] for line in imports] == ["amux", "amux.adapters.kit"]
