"""`amux managed ...` in processes of its own, with stand-ins for the agents."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from child_processes import child_env
from managed_home import ManagedHome, wait_until


def write_settings_of(home: ManagedHome) -> None:
    home.configure(opencode={"server_mode": False, **home.settings.get("opencode", {})})
    folder = home.home / ".agent-mux"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"session_management": home.settings}))


def command(home: ManagedHome, *words: str) -> tuple[list[str], dict[str, str]]:
    write_settings_of(home)
    env = child_env(**{**home.env, "AMUX_INDEX": "off"})
    return [sys.executable, "-m", "amux", "managed", *words], env


def amux(home: ManagedHome, *words: str) -> subprocess.CompletedProcess[str]:
    line, env = command(home, *words)
    return subprocess.run(
        line, env=env, cwd=home.project, capture_output=True, text=True, timeout=60, check=False
    )


def answer(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout)


def test_a_session_is_started_resumed_listed_stopped_and_deleted(
    managed_home: ManagedHome,
) -> None:
    done = amux(managed_home, "start", "droid", "hello", "--option", "autonomy=low")
    assert (done.returncode, done.stdout) == (0, "Answer to: hello\n")
    (row,) = answer(amux(managed_home, "list", "--json"))
    assert (row["agent"], row["status"], row["lastPrompt"]) == ("droid", "idle", "hello")
    assert row["cwd"] == str(managed_home.project)
    short = row["id"][:8]
    again = answer(amux(managed_home, "resume", short, "more", "--json"))
    assert (again["text"], again["resumeCount"]) == ("Answer to: more", 1)
    assert amux(managed_home, "list").stdout.split("\t")[:3] == [row["id"], "droid", "idle"]
    assert amux(managed_home, "stop", short).returncode == 0
    assert answer(amux(managed_home, "list", "--json", "--status", "ended"))[0]["id"] == row["id"]
    refused = amux(managed_home, "delete", short)
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    assert answer(amux(managed_home, "delete", short, "--dry-run", "--json"))["dryRun"] is True
    assert len(answer(amux(managed_home, "list", "--json"))) == 1
    before = managed_home.native_files()
    assert amux(managed_home, "delete", short, "--yes").returncode == 0
    assert answer(amux(managed_home, "list", "--json")) == []
    assert managed_home.native_files() == before != {}


def test_the_last_session_of_an_agent_is_named_by_the_agent(managed_home: ManagedHome) -> None:
    first = answer(amux(managed_home, "resume", "claude", "one", "--json"))
    second = answer(amux(managed_home, "resume", "claude", "two", "--json"))
    assert (first["isNew"], second["id"], second.get("isNew")) == (True, first["id"], None)
    asked = amux(managed_home, "resume", "droid", "one")
    assert (asked.returncode, "manual" in asked.stderr) == (1, True)


def test_a_crashed_session_is_shown_and_recovered(managed_home: ManagedHome) -> None:
    line, env = command(managed_home, "start", "droid", "HANG CHILD")
    running = subprocess.Popen(line, env=env, cwd=managed_home.project, stderr=subprocess.DEVNULL)
    managed = managed_home.managed
    wait_until(lambda: [each for each in managed.list_sessions() if each.agent_session_id])
    wait_until(managed_home.prompts)  # the agent has recorded the prompt
    running.kill()
    running.wait()
    (offer,) = answer(amux(managed_home, "recover", "--json"))
    assert offer["choices"] == ["resume", "new", "export", "discard"]
    assert managed_home.living() == []
    id = offer["session"]["id"]
    plain = amux(managed_home, "recover")
    assert id in plain.stdout
    assert "--by" in plain.stderr
    export = amux(managed_home, "recover", id, "--by", "export")
    assert "HANG CHILD" in export.stdout
    assert amux(managed_home, "recover", id).returncode == 2
    assert amux(managed_home, "recover", id, "--by", "discard").returncode == 2
    done = amux(managed_home, "recover", id, "go on", "--by", "resume")
    assert (done.returncode, done.stdout) == (0, "Answer to: go on\n")
    assert answer(amux(managed_home, "recover", "--json")) == []


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("agent", ["claude", "droid"])
def test_a_signal_to_amux_ends_the_agent_and_its_children(
    managed_home: ManagedHome, agent: str, sign: signal.Signals
) -> None:
    line, env = command(managed_home, "start", agent, "HANG CHILD")
    running = subprocess.Popen(
        line, env=env, cwd=managed_home.project, stderr=subprocess.PIPE, text=True
    )
    wait_until(managed_home.prompts)
    running.send_signal(sign)
    _, said = running.communicate(timeout=30)
    assert running.returncode == 130, said
    assert managed_home.living() == []
    (offer,) = answer(amux(managed_home, "recover", "--json"))
    assert offer["reason"] == "amux was interrupted"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("start", "nobody", "hello"), 3, "nobody"),
        (("start", "droid", "DIE"), 12, "recover"),
        (("start", "claude", "DIE"), 12, "killed by signal 9"),
        (("start", "codex", "hello"), 4, "not on the PATH"),
        (("start", "droid", "  "), 2, "empty"),
        (("start", "droid", "hello", "--cwd", "/nowhere/at/all"), 2, "not a directory"),
        (("start", "droid", "hello", "--option", "colour=red"), 2, "colour"),
        (("start", "droid", "hello", "--option", "colour"), 2, "NAME=VALUE"),
        (("resume", "12345678-1234-4234-8234-123456789abc", "x"), 8, "no managed session"),
        (("stop", "12345678"), 8, "no managed session"),
        (("list", "--status", "busy"), 2, "busy"),
    ],
)
def test_failures_have_their_exit_codes_and_no_traceback(
    managed_home: ManagedHome, words: tuple[str, ...], code: int, text: str
) -> None:
    done = amux(managed_home, *words)
    assert (done.returncode, text in done.stderr) == (code, True), done.stderr
    assert len(done.stderr.splitlines()) <= 2  # the error and the hint
    assert managed_home.living() == []


def test_a_server_that_is_down_and_a_hanging_agent_end_in_time(managed_home: ManagedHome) -> None:
    managed_home.configure(
        droid={"timeout": 0.5}, opencode={"server_url": "http://127.0.0.1:1", "server_mode": True}
    )
    folder = managed_home.home / ".agent-mux"
    folder.mkdir()
    text = json.dumps({"session_management": managed_home.settings})
    (folder / "config.json").write_text(text)
    env = child_env(**{**managed_home.env, "AMUX_INDEX": "off"})
    for agent, code in (("opencode", 1), ("droid", 11)):
        line = [sys.executable, "-m", "amux", "managed", "start", agent, "HANG CHILD"]
        done = subprocess.run(line, env=env, capture_output=True, timeout=30, check=False)
        assert done.returncode == code, done.stderr
    assert managed_home.living() == []


def test_a_cleanup_shows_and_archives_ended_sessions(managed_home: ManagedHome) -> None:
    for number in range(3):
        made = answer(amux(managed_home, "start", "droid", "--json"))
        if number:
            amux(managed_home, "stop", made["id"])
    managed_home.settings["global"] = {"max_sessions_per_agent": 2}
    shown = answer(amux(managed_home, "cleanup", "--dry-run", "--json"))
    assert (len(shown["sessions"]), shown["dryRun"], shown["action"]) == (1, True, "archive")
    assert amux(managed_home, "cleanup").returncode == 2
    assert len(answer(amux(managed_home, "cleanup", "--yes", "--json"))["sessions"]) == 1
    assert len(answer(amux(managed_home, "list", "--json"))) == 2
    assert len(answer(amux(managed_home, "list", "--json", "--status", "archived"))) == 1


def test_a_disk_that_cannot_be_written_is_told_and_the_answer_is_printed(
    managed_home: ManagedHome,
) -> None:
    managed_home.base.parent.mkdir(parents=True)
    managed_home.base.write_text("a file where the directory should be")
    done = amux(managed_home, "start", "droid", "hello")
    assert (done.returncode, done.stdout) == (0, "Answer to: hello\n")
    assert done.stderr.count("kept in memory") == 1
    assert "are lost" in done.stderr
