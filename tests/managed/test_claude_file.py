"""The list of Claude's sessions has the documented form and survives everything."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from child_processes import child_env
from managed_home import ManagedHome

from amux.managed.agents.claude_file import ClaudeSessionFile

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
FIRST, SECOND = "550e8400-e29b-41d4-a716-446655440000", "650e8400-e29b-41d4-a716-446655440000"
GOLDEN = f"""{{
  "session_ids": [
    "{FIRST}",
    "{SECOND}"
  ],
  "last_updated": "2026-03-01T12:30:00+00:00",
  "last_prompt": "do it"
}}
"""


def file_in(folder: Path) -> ClaudeSessionFile:
    return ClaudeSessionFile(
        folder / "agentloop.json", lambda: NOW, lock_path=folder / "locks" / "claude"
    )


def test_the_file_has_the_documented_form(tmp_path: Path) -> None:
    file = file_in(tmp_path)
    assert file.get_last_session_id() is None
    file.add_session_id(FIRST)
    file.save_session_data()
    file.add_session_id(SECOND, prompt="do it")
    file.save_session_data()
    assert file.path.read_text() == GOLDEN
    assert file_in(tmp_path).get_last_session_id() == SECOND


def test_an_id_that_is_no_uuid_is_not_used_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "agentloop.json").write_text(json.dumps({"session_ids": [FIRST, "../../etc"]}))
    with caplog.at_level(logging.WARNING, logger="amux"):
        assert file_in(tmp_path).get_last_session_id() is None
    assert "../../etc" in caplog.text


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"session_ids": 3}', "\0\0\0"])
def test_a_damaged_file_begins_anew_and_is_kept(tmp_path: Path, content: str) -> None:
    path = tmp_path / "agentloop.json"
    path.write_text(content)
    file = file_in(tmp_path)
    assert file.get_last_session_id() is None
    file.add_session_id(FIRST)
    file.save_session_data()
    assert json.loads(path.read_text())["session_ids"] == [FIRST]


def test_processes_lose_no_id(tmp_path: Path) -> None:
    script = (
        "import sys, uuid\n"
        "from datetime import datetime, UTC\n"
        "from pathlib import Path\n"
        "from amux.managed.agents.claude_file import ClaudeSessionFile\n"
        "folder = Path(sys.argv[1])\n"
        "for _ in range(20):\n"
        "    file = ClaudeSessionFile(folder / 'agentloop.json', lambda: datetime.now(UTC),"
        " lock_path=folder / 'locks' / 'claude')\n"
        "    file.add_session_id(str(uuid.uuid4()))\n"
        "    file.save_session_data()\n"
    )
    words = [sys.executable, "-c", script, str(tmp_path)]
    workers = [subprocess.Popen(words, env=child_env()) for _ in range(4)]
    assert [worker.wait(60) for worker in workers] == [0] * 4
    assert len(set(file_in(tmp_path).session_ids)) == 80


@pytest.mark.parametrize("api", ["sdk", "cli"])
def test_the_last_id_of_the_list_is_resumed_and_a_bad_one_is_not(
    managed_home: ManagedHome, api: str
) -> None:
    managed_home.configure(claude={"api": api, "session_file": "./agentloop.json"})
    managed, cwd = managed_home.managed, str(managed_home.project)
    first = managed.open_session("claude", "one", cwd=cwd)
    path = managed_home.project / "agentloop.json"
    stored = json.loads(path.read_text())
    assert (stored["session_ids"], stored["last_prompt"]) == ([first.agent_session_id], "one")
    second = managed.open_session("claude", "two", cwd=cwd)
    assert (second.agent_session_id, second.is_new) == (first.agent_session_id, False)
    path.write_text(json.dumps({"session_ids": [first.agent_session_id, "broken"]}))
    third = managed.open_session("claude", "three", cwd=cwd)
    assert (third.text, third.is_new) == ("Answer to: three", True)
    ids = json.loads(path.read_text())["session_ids"]
    assert ids == [first.agent_session_id, "broken", third.agent_session_id]


def test_a_session_that_another_program_listed_gets_a_managed_one(
    managed_home: ManagedHome,
) -> None:
    managed, cwd = managed_home.managed, str(managed_home.project)
    native = managed.create_session("claude", "one", cwd=cwd).agent_session_id
    managed.delete_session(managed.list_sessions()[0].id)
    assert native is not None
    info = managed.open_session("claude", "two", cwd=cwd)
    assert (info.agent_session_id, info.is_new) == (native, False)
    assert managed.map("claude", native) == info.id
