"""Resuming and forking start the agent; a program that records its arguments stands in for it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from child_processes import child_env
from fake_agents import FakeAgents, is_alive, wait_for

from amux import CapabilityError, create_client
from amux.errors import AmuxError, ErrorCode
from amux.model.ids import NativeRef
from amux.testing import find_captures

CAPTURES = Path(__file__).parent.parent / "captures"
PROMPT = "go on; rm -rf / $(touch no) `touch no` 'quoted'"


def fake_agent(folder: Path, name: str, version: str) -> Path:
    """A program that answers `--version`, and else writes its words and directory to a file."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    log = folder / f"{name}.log"
    program.write_text(
        f"#!{sys.executable}\n"
        "import os, sys\n"
        f"if sys.argv[1:] == ['--version']: print('{name} {version} (test)'); sys.exit()\n"
        f"open({str(log)!r}, 'w').write('\\0'.join([os.getcwd(), *sys.argv[1:]]))\n"
    )
    program.chmod(0o755)
    return log


def first_session(tmp_path: Path, agent: str, version: str) -> tuple[Path, str]:
    capture = next(c for c in find_captures(CAPTURES, agent) if c.version == version)
    return capture.copy_to(tmp_path), str(capture.sessions[0]["session_id"])


def amux(home: Path, programs: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = child_env(HOME=str(home), PATH=str(programs))
    command = [sys.executable, "-m", "amux", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("agent", "capture", "verb", "words"),
    [
        ("claude", "2.1.325", "resume", ["--resume"]),
        ("claude", "2.1.325", "fork", ["--resume", "--fork-session"]),
        ("codex", "0.166.0", "resume", ["exec", "resume"]),
        ("codex", "0.166.0", "fork", ["exec", "fork"]),
    ],
)
def test_the_agent_gets_the_session_and_the_prompt_word_for_word(
    agent: str, capture: str, verb: str, words: list[str], tmp_path: Path
) -> None:
    home, session = first_session(tmp_path, agent, capture)
    log = fake_agent(tmp_path / "bin", agent, capture)
    where = ("--cwd", str(tmp_path))  # the captured project is not on this machine
    amux(home, tmp_path / "bin", "sessions", verb, agent, session, "--prompt", PROMPT, *where)
    place, *got = log.read_text().split("\0")
    assert set(words) <= set(got)
    assert session in got
    assert PROMPT in got
    assert place == str(tmp_path)


def test_a_dry_run_prints_the_command_and_starts_nothing(tmp_path: Path) -> None:
    home, session = first_session(tmp_path, "claude", "2.1.325")
    log = fake_agent(tmp_path / "bin", "claude", "2.1.325")
    words = ("sessions", "resume", f"claude:{session}", "--dry-run", "--cwd", str(tmp_path))
    done = amux(home, tmp_path / "bin", *words)
    assert done.stdout.split() == [str(tmp_path / "bin" / "claude"), "--resume", session]
    assert not log.exists()


def test_an_action_the_installed_version_lacks_is_refused_before_it_starts(tmp_path: Path) -> None:
    home, session = first_session(tmp_path, "codex", "0.42.0")
    log = fake_agent(tmp_path / "bin", "codex", "0.20.0")
    done = amux(home, tmp_path / "bin", "sessions", "fork", "codex", session)
    assert done.returncode == 6
    assert "Codex 0.20.0 cannot fork" in done.stderr
    assert not log.exists()


def test_an_agent_that_is_not_installed_has_its_own_exit_code(tmp_path: Path) -> None:
    home, session = first_session(tmp_path, "claude", "2.1.50")
    (tmp_path / "bin").mkdir()
    done = amux(home, tmp_path / "bin", "sessions", "resume", "claude", session)
    assert done.returncode == 4
    assert "Traceback" not in done.stderr


def test_the_plan_runs_in_the_directory_of_the_session(tmp_path: Path) -> None:
    home, session = first_session(tmp_path, "claude", "2.1.50")
    project = tmp_path / "project"
    project.mkdir()
    for file in (home / ".claude" / "projects").rglob(f"{session}.jsonl"):
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("/home/dev/src/webapp-claude", str(project)), encoding="utf-8")
    fake_agent(tmp_path / "bin", "claude", "2.1.50")
    client = create_client(home=home, env={"PATH": str(tmp_path / "bin")})
    plan = client.plan_run("resume", ref=NativeRef(agent="claude", native_session_id=session))
    assert plan.cwd == str(project)
    assert plan.version == "2.1.50"


def test_an_impossible_working_directory_is_omitted(tmp_path: Path) -> None:
    home, session = first_session(tmp_path, "claude", "2.1.50")
    for file in (home / ".claude" / "projects").rglob(f"{session}.jsonl"):
        text = file.read_text(encoding="utf-8")
        place = f"/{'x' * 5000}"  # the operating system refuses to look at such a name
        file.write_text(text.replace("/home/dev/src/webapp-claude", place), encoding="utf-8")
    fake_agent(tmp_path / "bin", "claude", "2.1.50")
    client = create_client(home=home, env={"PATH": str(tmp_path / "bin")})
    plan = client.plan_run("resume", ref=NativeRef(agent="claude", native_session_id=session))
    assert plan.cwd is None


class NoForks:
    agent = "simple"
    capabilities = None

    def session_dir(self, cwd: str | None = None) -> str:
        return "/nowhere"

    def list_session_files(self, cwd: str | None = None) -> list[str]:
        return []

    def parse_session_file(self, file: str | Path) -> object:
        raise FileNotFoundError(file)


def test_an_agent_without_the_capability_is_refused_before_sessions_are_read(
    tmp_path: Path,
) -> None:
    client = create_client(home=tmp_path, env={"PATH": ""})
    client.adapters.register(NoForks())
    with pytest.raises(CapabilityError) as refused:
        client.plan_run("fork", agent="simple")
    assert refused.value.capability == "can_fork"


def test_capabilities_follow_the_version(tmp_path: Path) -> None:
    adapters = create_client(home=tmp_path).adapters
    able = {
        version: (found.can_resume, found.can_fork)
        for version in ("0.20.0", "0.42.0", "0.80.0", "0.120.0", "0.166.0")
        for found in [adapters.capabilities("codex", version=version)]
    }
    assert able == {
        "0.20.0": (False, False),
        "0.42.0": (True, False),
        "0.80.0": (True, False),
        "0.120.0": (True, True),
        "0.166.0": (True, True),
    }


@pytest.mark.parametrize(
    ("version", "able"),
    [
        ("0.20.0", (False, False)),
        ("0.42.0", (True, False)),
        ("0.120.0", (True, True)),
        ("of its own kind", (True, True)),
    ],
)
def test_capabilities_are_those_of_the_version_that_is_installed(
    version: str, able: tuple[bool, bool], tmp_path: Path
) -> None:
    fake_agent(tmp_path / "bin", "codex", version)
    client = create_client(home=tmp_path, env={"PATH": str(tmp_path / "bin")})
    found = client.adapters.capabilities("codex")
    assert (found.can_resume, found.can_fork) == able
    shown = {each.name: (each.can_resume, each.can_fork) for each in client.agents()}
    assert shown["codex"] == able
    assert shown["claude"] == (True, True)  # not installed: as the newest


def test_the_command_shows_what_the_installed_version_can_do(tmp_path: Path) -> None:
    fake_agent(tmp_path / "bin", "codex", "0.42.0")
    done = amux(tmp_path, tmp_path / "bin", "agents", "codex")
    assert done.stdout.rstrip("\n").split("\t")[-1] == "resume usage"


def test_no_program_is_started_for_another_home(tmp_path: Path) -> None:
    fake_agent(tmp_path / "bin", "codex", "0.20.0")
    done = amux(tmp_path, tmp_path / "bin", "agents", "codex", "--home", str(tmp_path))
    assert done.stdout.rstrip("\n").split("\t")[-1] == "resume fork usage"


def test_naming_no_agent_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(AmuxError) as missing:
        create_client(home=tmp_path).plan_run("new")
    assert missing.value.code is ErrorCode.VALIDATION_ERROR


def test_an_agent_is_detected_by_its_program(tmp_path: Path) -> None:
    fake_agent(tmp_path / "venv", "hermes", "0.19.0")
    client = create_client(home=tmp_path, env={"PATH": str(tmp_path / "venv")})
    found = client.adapters.detect("hermes")
    assert found is not None
    assert (found.program, found.version) == (str(tmp_path / "venv" / "hermes"), "0.19.0")


def test_an_agent_is_detected_by_its_python_package_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "site" / "hermes_agent-0.13.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: hermes-agent\nVersion: 0.13.0\n")
    monkeypatch.setattr(sys, "path", [str(about.parent), *sys.path])
    found = create_client(home=tmp_path, env={"PATH": ""}).adapters.detect("hermes")
    assert found is not None
    assert (found.program, found.version) == (None, "0.13.0")


@pytest.mark.parametrize("agent", ["hermes", "claude"])
def test_an_agent_that_is_absent_is_not_detected(agent: str, tmp_path: Path) -> None:
    assert create_client(home=tmp_path, env={"PATH": ""}).adapters.detect(agent) is None


ENDLESS = "while True: print('x' * 4096)"
PARENT = """
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
note("child", child.pid)
print("pi 1.2.3")
"""


@pytest.mark.parametrize(("body", "version"), [(ENDLESS, None), (PARENT, "1.2.3")])
def test_a_program_that_cannot_be_asked_for_its_version_neither_hangs_nor_stays(
    agents: FakeAgents, body: str, version: str | None
) -> None:
    program = agents.folder / "pi"
    head = f"#!{sys.executable}\nimport os, subprocess, sys\n"
    note = "def note(name, value): open(f'{FOLDER}/{name}', 'w').write(str(value))"
    folder = f"FOLDER = {str(agents.folder)!r}"
    program.write_text(f"{head}{folder}\n{note}\nnote('asked', os.getpid())\n{body}")
    program.chmod(0o755)
    begun = time.monotonic()
    found = agents.client().adapters.detect("pi")
    assert time.monotonic() - begun < 10
    assert found is not None
    assert found.version == version
    left = [int(agents.noted(name)) for name in ("asked", "child")[: 1 + (version is not None)]]
    wait_for(lambda: None if any(map(is_alive, left)) else "all have ended")
