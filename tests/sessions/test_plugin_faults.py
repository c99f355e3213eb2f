"""Faults in adapters of other packages affect no other agent."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import open_client, uuid_of, write_claude
from memory_adapter import MemoryAdapter, call
from notes_adapter import NotesAdapter, adapter_folder, write_notes

from amux.adapters._base import Item, SourceRef, Want
from amux.client import Client
from amux.errors import (
    AmuxError,
)
from amux.host import Host
from amux.model.options import SessionListOptions, SessionQuery
from amux.model.session import Session


@pytest.fixture
def notes(tmp_path: Path) -> NotesAdapter:
    return write_notes(tmp_path / "notes")


@pytest.fixture
def client(notes: NotesAdapter, home: Path) -> Client:
    client = open_client(home)
    client.adapters.register(notes)
    return client


# Faults


def check_others_are_unharmed(client: Client, home: Path, *, agent: str) -> None:
    """Everything over all agents still works, and the fault is said."""
    write_claude(home, 1, answer="needle")
    assert [s.agent for s in client.sessions.search("needle")] == ["claude"]
    assert client.sessions.total_cost().session_count >= 1
    assert client.find(uuid_of(1)).agent == "claude"
    assert agent in {status.name for status in client.agents()}
    assert client.overview().recent[0].agent == "claude"
    listed = client.list_report(None, SessionListOptions()).sessions
    assert "claude" in {session.agent for session in listed}


@pytest.mark.parametrize("result", ["raises", "none", "text"])
def test_a_file_that_the_adapter_fails_to_parse_is_a_problem_of_that_file(
    result: str, client: Client, home: Path
) -> None:
    class Failing(NotesAdapter):
        agent = "failing"

        def parse_session_file(self, file: str | Path) -> Session:
            if Path(file).stem == "two":
                return super().parse_session_file(file)
            if result == "raises":
                raise KeyError("oops")
            wrong: Any = None if result == "none" else "a session"
            return wrong

    client.adapters.register(Failing(adapter_folder(client)))
    check_others_are_unharmed(client, home, agent="failing")
    report = client.list_report(("failing",), SessionListOptions())
    assert [s.session_id for s in report.sessions] == ["two"]
    (problem,) = report.problems
    assert problem.path == str(adapter_folder(client) / "one.txt")
    assert "failing" in problem.message


def test_an_adapter_that_fails_to_list_files_is_a_problem(client: Client, home: Path) -> None:
    class Forbidden(NotesAdapter):
        agent = "forbidden"

        def list_session_files(self, cwd: str | None = None) -> Iterable[Path]:
            yield from super().list_session_files(cwd)
            raise PermissionError("keep out")

    client.adapters.register(Forbidden(adapter_folder(client)))
    check_others_are_unharmed(client, home, agent="forbidden")
    report = client.list_report(("forbidden",), SessionListOptions())
    assert len(report.sessions) == 2, "what came before the fault is kept"
    assert [problem.path for problem in report.problems] == [str(adapter_folder(client))]
    assert "keep out" in report.problems[0].message
    assert client.search_report(SessionQuery(text="x")).problems == report.problems
    assert client.sessions.get("forbidden", "one").session_id == "one"


def test_an_adapter_that_fails_to_name_its_directory_has_no_sessions(
    client: Client, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Lost(NotesAdapter):
        agent = "lost"

        def session_dir(self, cwd: str | None = None) -> Path:
            raise RuntimeError("where am I?")

    client.adapters.register(Lost(adapter_folder(client)))
    check_others_are_unharmed(client, home, agent="lost")
    assert client.sessions.list("lost") == []
    adapter = client.adapters.get("lost")
    assert adapter is not None
    with pytest.raises(AmuxError, match="lost") as caught:
        adapter.session_dir()
    assert caught.value.code == "PLUGIN_ERROR"
    assert "where am I?" in caplog.text


def test_a_full_adapter_that_fails_half_way_is_a_problem_too(client: Client, home: Path) -> None:
    class Broken(MemoryAdapter):
        def read(
            self,
            source: SourceRef,
            *,
            want: Want,
            only: str | None = None,
            until: int | None = None,
        ) -> Iterator[Item]:
            yield from list(super().read(source, want=want))[:-1]
            raise ValueError("half way")

    memory = Broken(home / "memory")
    memory.root.mkdir()
    memory.put("s", call("x"))
    client.adapters.register(memory)
    check_others_are_unharmed(client, home, agent="memory")
    report = client.list_report(("memory",), SessionListOptions())
    assert report.sessions == ()
    assert ["half way" in problem.message for problem in report.problems] == [True]


# Installed packages


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory on the path, like site-packages, with one package that offers two adapters."""
    site = tmp_path / "site"
    info = site / "amux_sample-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: amux-sample\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[amux.adapters]\nsample = amux_sample:ADAPTER\nbroken = amux_broken:ADAPTER\n"
    )
    (site / "amux_sample.py").write_text(
        "from pathlib import Path\n"
        "from amux import Session\n"
        "class Sample:\n"
        "    agent = 'sample'\n"
        "    def session_dir(self, cwd=None): return Path(__file__).parent\n"
        "    def list_session_files(self, cwd=None): return []\n"
        "    def parse_session_file(self, file): raise ValueError(file)\n"
        "ADAPTER = Sample()\n"
    )
    (site / "amux_broken.py").write_text("raise ImportError('no such luck')\n")
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    importlib.invalidate_caches()
    yield site
    for name in ("amux_sample", "amux_broken"):
        sys.modules.pop(name, None)


def test_an_installed_adapter_is_known_without_being_imported(installed: Path, home: Path) -> None:
    client = open_client(home)
    assert client.sessions.resolve_native_id("sample:1") is not None
    assert "amux_sample" not in sys.modules
    assert client.sessions.list("sample") == []
    assert "amux_sample" in sys.modules
    infos = {info.name: info for info in client.adapters.list()}
    assert infos["sample"].tier == "plugin"
    assert list(infos)[:2] == ["claude", "codex"], "built-in ones come first"


def test_an_installed_adapter_that_does_not_load_affects_no_other_agent(
    installed: Path, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = open_client(home)
    check_others_are_unharmed(client, home, agent="broken")
    assert "no such luck" in caplog.text
    assert client.sessions.list("broken") == []
    (status,) = [status for status in client.agents() if status.name == "broken"]
    assert "no such luck" in status.evidence


def test_without_the_package_its_name_is_unknown(home: Path) -> None:
    assert open_client(home).sessions.resolve_native_id("sample:1") is None


# The host


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_every_built_in_agent_looks_below_the_home_it_is_given(platform: str, home: Path) -> None:
    from amux.adapters import BUILTIN, load_builtin

    for name in BUILTIN:
        adapter = load_builtin(name)
        assert adapter is not None
        roots = adapter.roots(Host(home, platform=platform))
        assert roots
        assert all(home in root.parents for root in roots)
