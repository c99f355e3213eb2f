"""`doctor`: every file is accounted for."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from builders import SharedHome

from amux import create_client
from amux.model.reports import RootReport
from amux.testing import Capture, find_captures

CAPTURES = find_captures(Path(__file__).parent.parent / "captures")


def examine(home: Path, agent: str) -> list[RootReport]:
    return list(create_client(home=home).doctor(agent))


@pytest.mark.parametrize("capture", CAPTURES, ids=[capture.name for capture in CAPTURES])
def test_no_file_of_a_real_home_is_unknown(capture: Capture, shared_home: SharedHome) -> None:
    reports = examine(shared_home(capture), capture.agent)
    assert reports
    files = [file for report in reports for file in report.files]
    assert [file for file in files if file.status in ("unknown", "unread")] == []
    assert any(file.status == "session" for file in files)


def test_every_file_below_a_root_is_there_once(tmp_path: Path) -> None:
    capture = next(c for c in CAPTURES if c.name == "codex-0.166.0")
    home = capture.copy_to(tmp_path)
    root = home / ".codex"
    on_disk = sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())
    (report,) = examine(home, "codex")
    assert [file.path for file in report.files] == on_disk
    assert sum(report.counts.values()) == len(on_disk)


def test_a_foreign_file_a_link_and_a_broken_session_are_reported(tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "projects" / "-p"
    folder.mkdir(parents=True)
    (folder / "stray.bin").write_bytes(b"?")
    (folder / "11111111-2222-4333-8444-555555555555.jsonl").write_bytes(b"garbage\n")
    (folder / "22222222-2222-4333-8444-555555555555.jsonl").write_bytes(b"")
    (folder / "link.jsonl").symlink_to("/etc/hostname")
    (report,) = examine(tmp_path, "claude")
    assert {file.path.partition("/")[2]: file.status for file in report.files} == {
        "stray.bin": "unknown",
        "11111111-2222-4333-8444-555555555555.jsonl": "unread",
        "22222222-2222-4333-8444-555555555555.jsonl": "no-session",
        "link.jsonl": "link",
    }
    assert report.problems


@pytest.mark.parametrize(("settings", "days"), [("{}", 30), ('{"cleanupPeriodDays": 7}', 7)])
def test_the_next_loss_is_the_oldest_file_and_the_agents_own_period(
    settings: str, days: int, tmp_path: Path
) -> None:
    capture = next(c for c in CAPTURES if c.name == "claude-2.1.50")
    home = capture.copy_to(tmp_path)
    (home / ".claude" / "settings.json").write_text(settings)
    oldest = next(path for path in sorted((home / ".claude" / "projects").rglob("*.jsonl")))
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    os.utime(oldest, (moment.timestamp(), moment.timestamp()))
    (report,) = examine(home, "claude")
    assert report.next_loss is not None
    assert report.next_loss.path == oldest.relative_to(home / ".claude" / "projects").as_posix()
    assert (report.next_loss.at - moment).days == days


def test_an_agent_that_keeps_everything_has_no_next_loss(tmp_path: Path) -> None:
    capture = next(c for c in CAPTURES if c.name == "codex-0.42.0")
    (report,) = examine(capture.copy_to(tmp_path), "codex")
    assert report.next_loss is None


def test_a_link_to_a_folder_is_reported(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "11111111-2222-4333-8444-555555555555.jsonl").write_bytes(b"{}\n")
    projects = tmp_path / "home" / ".claude" / "projects"
    projects.mkdir(parents=True)
    (projects / "-p").symlink_to(elsewhere)
    (report,) = examine(tmp_path / "home", "claude")
    assert [(file.path, file.status) for file in report.files] == [("-p", "link")]
    assert report.counts == {"link": 1}


STORES = [
    ("codex-0.42.0", ".codex/sessions"),
    ("copilot-1.0.102", ".copilot/session-state"),
    ("gemini-0.61.0", ".gemini/tmp"),
    ("openclaw-2026.6.11", ".openclaw/agents"),
    ("opencode-0.5.29", ".local/share/opencode/project"),
    ("qwen-0.24.4", ".qwen/projects"),
]


@pytest.mark.parametrize(("name", "store"), STORES)
def test_files_behind_a_symbolic_link_are_reported_if_they_are_read(
    name: str, store: str, tmp_path: Path
) -> None:
    capture = next(c for c in CAPTURES if c.name == name)
    home = capture.copy_to(tmp_path)
    before = {file.path: file for report in examine(home, capture.agent) for file in report.files}
    (home / store).rename(tmp_path / "elsewhere")
    (home / store).symlink_to(tmp_path / "elsewhere")
    files = [file for report in examine(home, capture.agent) for file in report.files]
    listed = create_client(home=home).sessions.list(capture.agent, limit="all")
    if listed:
        assert {file.path: file for file in files} == before
    else:
        assert [file.status for file in files if file.path in store] == ["link"]
