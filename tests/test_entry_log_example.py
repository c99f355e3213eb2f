"""The agent in `examples/entry-log-agent`, run as a user runs it, and the code of the guide."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from child_processes import SOURCES, child_env

from amux import EntryLog, create_client, list_entry_logs

ROOT = Path(__file__).parent.parent
AGENT = ROOT / "examples" / "entry-log-agent" / "src"


class Agent:
    """A user of the agent with a home and a project."""

    def __init__(self, place: Path) -> None:
        self.home, self.project = place / "home", place / "project"
        self.home.mkdir()
        self.project.mkdir()
        for name in ("a.py", "b.py"):
            (self.project / name).write_text("")
        self.folder = self.home / ".config" / "entry-log-agent" / "sessions"
        self.code = 0

    def run(self, *words: str, says: str = "", **env: str) -> list[str]:
        path = os.pathsep.join((str(AGENT), SOURCES))
        done = subprocess.run(
            [sys.executable, "-m", "entry_log_agent", *words],
            env=child_env(HOME=str(self.home), PYTHONPATH=path, **env),
            cwd=self.project,
            input=says,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.code = done.returncode
        assert "Traceback" not in done.stderr
        return (done.stdout + done.stderr).splitlines()

    def logs(self) -> list[EntryLog]:
        """The sessions, the newest first."""
        return [EntryLog.load(self.folder, info.id) for info in list_entry_logs(self.folder)]


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


def roles(log: EntryLog) -> list[str]:
    return [message["role"] for message in log.messages()]


def test_every_start_is_a_new_session(agent: Agent) -> None:
    assert agent.run(says="hello\n") == ["You said: hello"]
    assert agent.run("-prompt", "list the files") == ["[list_files]", "There are 2 files here."]
    newest, oldest = agent.logs()
    assert roles(newest) == ["user", "assistant", "tool_result", "assistant"]
    assert roles(oldest) == ["user", "assistant"]
    assert newest.cwd == str(agent.project)


def test_a_session_is_resumed_by_the_beginning_of_its_id(agent: Agent) -> None:
    agent.run("-prompt", "one")
    [log] = agent.logs()
    agent.run("-session", log.id[:6], "-prompt", "two")
    assert [log.id] == [each.id for each in agent.logs()]
    assert len(log.messages()) == 4


def test_a_session_that_is_not_there_is_an_error_with_its_exit_code(agent: Agent) -> None:
    agent.run("-prompt", "one")
    said = agent.run("-session", "2026", "-prompt", "two")
    assert said[0].startswith("error: no session in ")
    assert said[1].startswith("hint: ")
    assert agent.code == 8


def test_session_shows_the_id_and_the_file(agent: Agent) -> None:
    said = agent.run(says="/session\n")
    [log] = agent.logs()
    assert said == [f"{log.id} {log.file_path}"]


def test_sessions_are_listed_newest_first(agent: Agent) -> None:
    for number, prompt in enumerate(("one", "two", "th\x1b[31mree")):
        agent.run("-prompt", prompt)
        [*newest] = agent.logs()[:1]
        os.utime(newest[0].file_path, ns=(number, number))
    expected = ["th?[31mree", "two", "one"]
    for said in (agent.run("-sessions"), agent.run(says="/sessions\n")[1:]):
        assert [line.split()[-1] for line in said] == expected
    assert re.match(r"[0-9a-f]{8}  \d{4}-\d\d-\d\d \d\d:\d\d     2  ", agent.run("-sessions")[1])


def test_export_writes_a_page(agent: Agent) -> None:
    said = agent.run(
        says="<script>alert(1)</script>\n/export\n/export mine.html\n/export no/dir.html\n"
    )
    [log] = agent.logs()
    page = agent.project / f"session-{log.id[:8]}.html"
    assert said[1:3] == [f"exported to {page}", f"exported to {agent.project / 'mine.html'}"]
    assert said[3].startswith("error: cannot write no/dir.html")
    text = page.read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script" not in text


@pytest.mark.parametrize(("command", "kept"), [("/fork", 20), ("/fork 10", 10), ("/fork 99", 24)])
def test_fork_goes_on_in_a_new_session(command: str, kept: int, agent: Agent) -> None:
    prompts = "".join(f"{number}\n" for number in range(12))
    said = agent.run(says=f"{prompts}{command}\nafter\n/session\n")
    by_id = {log.id: log for log in agent.logs()}
    fork = by_id.pop(said[-1].split()[0])
    [parent] = by_id.values()
    assert said[12] == f"forked: {fork.id}, {kept} messages"
    assert (len(parent.messages()), len(fork.messages())) == (24, kept + 2)
    branch = json.loads(fork.file_path.read_bytes().splitlines()[1])
    assert branch["parent_session_path"] == str(parent.file_path)


def test_compact_replaces_the_beginning_by_a_summary(agent: Agent) -> None:
    said = agent.run(says="one\ntwo\n/compact\nthree\n")
    assert said[2] == "compacted: 3 messages"
    [log] = agent.logs()
    summary, *rest = [message["content"][0]["text"] for message in log.messages()]
    assert "- one\n- two" in summary
    assert rest == ["two", "You said: two", "three", "You said: three"]


def test_a_command_that_is_none_says_what_there_is(agent: Agent) -> None:
    said = agent.run(says="/poem\n/fork many\n\n/quit\nnever read\n")
    assert said[0].startswith("unknown command /poem; there are /session, ")
    assert said[1] == "error: many is not a number of messages"
    assert len(said) == 2


def test_sessions_can_be_kept_elsewhere(agent: Agent, tmp_path: Path) -> None:
    agent.run("-prompt", "x", XDG_CONFIG_HOME=str(tmp_path / "settings"))
    assert len(list_entry_logs(tmp_path / "settings" / "entry-log-agent" / "sessions")) == 1
    agent.run("-dir", str(tmp_path / "other"), "-prompt", "x")
    assert len(list_entry_logs(tmp_path / "other")) == 1
    assert not agent.folder.exists()


def test_a_closed_directory_is_an_error_and_no_traceback(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = agent.run("-dir", str(tmp_path / "file" / "x"), "-prompt", "x")
    assert said[0].startswith("error: cannot create ")
    assert agent.code == 1


def test_amux_reads_the_sessions_of_the_agent(agent: Agent) -> None:
    """In the place of the agent whose format it is, sessions, forks and costs are found."""
    place = agent.home / ".config" / "agent" / "sessions"
    agent.run("-dir", str(place), says="list the files\n/fork\nmore\n")
    sessions = create_client(home=agent.home).sessions.list("agent")
    assert sorted((each.kind, each.title, each.turn_count) for each in sessions) == [
        ("fork", "list the files", 2),
        ("session", "list the files", 1),
    ]
    calls = {
        each.kind: create_client(home=agent.home).sessions.get("agent", each.session_id).calls
        for each in sessions
    }
    assert [call.tokens.input for call in calls["session"]] == [3, 5]
    assert [call.tokens.input for call in calls["fork"]] == [11], "copies are the parent's calls"


def test_the_code_of_the_guide_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (ROOT / "docs" / "guides" / "entry-log.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "entry-log.md", "exec"), names)
    assert "<h1>My session</h1>" in (tmp_path / "session.html").read_text(encoding="utf-8")
    assert len(list_entry_logs(tmp_path / ".config" / "my-agent" / "sessions")) == 2
    assert len(names["log"].messages()) == 2
