"""Runs the tests that a framework ships in its source distribution, with a class of ours in place.

The distribution is downloaded once, by version and hash, and unpacked below `build/`; none of its
files is part of this project. The tests run in a process of their own with a plug-in from the
folder `plugins`, which replaces the class of the framework. Failures that the replacement must
cause are written down by name, with the reason, in a file beside the plug-in.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

PROJECT = Path(__file__).parents[2]
PLUGINS = Path(__file__).parent / "plugins"
DISTRIBUTIONS = PROJECT / "build" / "frameworks" / "sdists"


@dataclass(frozen=True)
class Distribution:
    """The source distribution of a framework."""

    name: str
    version: str
    sha256: str

    @property
    def stem(self) -> str:
        return f"{self.name.replace('-', '_')}-{self.version}"

    def unpacked(self) -> Path:
        """Return the directory with the files, which are fetched when they are missing."""
        archive = DISTRIBUTIONS / f"{self.stem}.tar.gz"
        if not archive.exists():
            DISTRIBUTIONS.mkdir(parents=True, exist_ok=True)
            wanted = f"{self.name}=={self.version}"
            options = ["--no-deps", "--no-binary", self.name, "--dest", str(DISTRIBUTIONS)]
            command = [sys.executable, "-m", "pip", "download", "--quiet", *options, wanted]
            subprocess.run(command, check=True, timeout=300)
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        assert found == self.sha256, f"{archive.name} has another hash: {found}"
        folder = DISTRIBUTIONS / self.stem
        if not (folder / "PKG-INFO").exists():
            with tarfile.open(archive) as file:
                file.extractall(DISTRIBUTIONS, filter="data")
        return folder


@dataclass(frozen=True)
class Outcome:
    """The names of the tests of a suite, by their outcome."""

    passed: frozenset[str]
    failed: frozenset[str]
    output: str


def run_suite(
    folder: Path, tests: Sequence[str], *, plugin: str, report: Path, env: Mapping[str, str]
) -> Outcome:
    """Run tests of an unpacked distribution with a plug-in; `report` is a file to be written."""
    command = [
        *(sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider"),
        *("-p", plugin, f"--junitxml={report}", *tests),
    ]
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**inherited, **env, "PYTHONPATH": str(PLUGINS)},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    output = done.stdout[-5000:] + done.stderr[-2000:]
    assert done.returncode in {0, 1}, output
    cases = list(ET.parse(report).iter("testcase"))
    failed = {_name(each) for each in cases if {"failure", "error"} & {part.tag for part in each}}
    skipped = {_name(each) for each in cases if each.find("skipped") is not None}
    passed = {_name(each) for each in cases} - failed - skipped
    return Outcome(frozenset(passed), frozenset(failed), output)


def _name(case: ET.Element) -> str:
    return f"{case.get('classname')}::{case.get('name')}"


def expected_failures(list_name: str) -> dict[str, str]:
    """Return the reasons of the failures that are written down, by the names of the tests.

    A line that begins with `#` is the reason for the names below it.
    """
    reasons: dict[str, str] = {}
    reason = ""
    for line in (PLUGINS / list_name).read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            reason = line.removeprefix("#").strip()
        elif line.strip():
            assert reason, f"`{line}` has no reason"
            reasons[line.strip()] = reason
    return reasons
