"""Run the live tests of one agent, in any version, and say what differs.

    python tools/live.py codex              the pinned version
    python tools/live.py codex latest       the newest version of the registry
    python tools/live.py codex 0.120.0      that version

Installs the version below build/, runs its live tests and prints a report: which cells of the
matrix passed, how the others failed, and the record types, fields and files of that version that
amux does not know. The report is also in `build/live/<agent>/<version>/report.txt`. The exit code
is 1 if amux answers anything wrong, 0 if it only meets something unknown.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from install_agents import ROOT, install, latest_version, pins
from live_outcomes import CELLS, FOLDER, Outcomes, outcomes_of


def run_tests(agent: str, version: str) -> int:
    """Run the live tests of a version; return the exit code of pytest."""
    for old in (FOLDER / agent / version).glob("*.json"):
        old.unlink()
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"]
    wanted = {"AMUX_LIVE_AGENT": agent, "AMUX_LIVE_VERSION": version}
    log = FOLDER / agent / version / "pytest.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as output:
        return subprocess.run(
            [*command, "tests/live/test_live_agents.py"],
            cwd=ROOT,
            env={**os.environ, **wanted},
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode


def report(agent: str, version: str) -> tuple[str, bool]:
    """Return the report about a version, and whether all answers were right."""
    outcomes = outcomes_of(agent, version)
    pinned = pins()[agent]["version"]
    heading = "the pinned version" if version == pinned else f"pinned: {pinned}"
    lines = [f"{agent} {version} ({heading})", ""]
    for cell in CELLS:
        if cell in outcomes:
            outcome = outcomes[cell]
            word = "right" if outcome["passed"] else "WRONG"
            lines.append(f"  {cell:<8}{word}  {outcome['seconds']:.1f} s")
    if not outcomes:
        log = (FOLDER / agent / version / "pytest.txt").read_text(encoding="utf-8")
        return "\n".join([*lines, "  no test ran:", log[-2000:]]), False
    lines += ["", *_unknown_lines(outcomes)]
    for cell, outcome in outcomes.items():
        if not outcome["passed"]:
            lines += ["", f"{cell}:", *_complaint(outcome["complaint"])]
    is_right = all(outcome["passed"] for outcome in outcomes.values())
    return "\n".join(lines) + "\n", is_right


def _unknown_lines(outcomes: Outcomes) -> list[str]:
    """Return what amux does not know in the files of this version."""
    lines: list[str] = []
    for unknown in outcomes.get("exact", {}).get("unknown", ()):
        types, fields, files = (unknown.get(name, ()) for name in ("types", "fields", "files"))
        lines += [f"  record type {one['name']}: {one['count']}x" for one in types]
        lines += [f"  field {_field(one)}: {one['count']}x" for one in fields]
        lines += [f"  file {one['pattern']}: {one['count']}x" for one in files]
    if not lines:
        return ["amux knows every record type, field and file that the test left."]
    return ["amux does not know, and did not need:", *lines]


def _field(field: dict[str, Any]) -> str:
    return f"{field['name']} of {field['recordType']} ({', '.join(field['jsonTypes'])})"


def _complaint(text: str) -> list[str]:
    """Return the lines of a failed test that say what differs, or else its last lines."""
    lines = text.splitlines()
    told = [line for line in lines if line.startswith("E ")]
    return [f"  {line}" for line in (told or lines[-20:])]


def main(words: list[str]) -> int:
    """Install, test and report; return the exit code."""
    if not words or words[0] not in pins():
        sys.exit(f"error: name an agent: {', '.join(pins())}")
    agent = words[0]
    version = words[1] if len(words) > 1 and words[1] else pins()[agent]["version"]
    if version == "latest":
        version = latest_version(agent)
    install(agent, version)
    code = run_tests(agent, version)
    text, is_right = report(agent, version)
    (FOLDER / agent / version / "report.txt").write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return 0 if is_right and code == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
