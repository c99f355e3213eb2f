"""Starting a session prepares nothing for later: imports and touched files are counted.

Clocks are not used: a slow machine must not fail these tests, and a fast one must not hide work.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from child_processes import child_env

from amux.lifecycle import builtin_hooks
from amux.lifecycle.lifecycle import Lifecycle

HEAVY = (
    "asyncio", "concurrent.futures", "email", "hashlib", "hmac", "http", "importlib.metadata",
    "inspect", "json", "logging", "multiprocessing", "select", "shutil", "signal", "socket",
    "sqlite3", "ssl", "subprocess", "tempfile", "urllib.request", "zoneinfo",
    "amux.adapters", "amux.client", "amux.index", "amux.reading", "amux.sessions",
    "amux.lifecycle.command_hooks", "amux.lifecycle.framework", "amux.lifecycle.message_source",
    "amux.lifecycle.redaction", "amux.lifecycle.reset", "amux.lifecycle.router",
)  # fmt: skip
"""Modules that no startup needs."""

START = """
import json, os, sys
from amux.store.session_store import SessionStore
known = set(sys.modules)
from amux.lifecycle.lifecycle import Lifecycle
from amux.lifecycle.live_session import LiveSession
imported = [name for name in sys.modules if name not in known]

place, cwd, *options = sys.argv[1:]
if "restore" in options:
    from amux.lifecycle.restore import RestoreRegistry
    restore = RestoreRegistry()
else:
    restore = None
store = SessionStore(place)
handle = store.start(cwd=cwd, model="opus")
session = LiveSession(store.log, handle.thread_id, handle.run_session_id)
lifecycle = Lifecycle(restore=restore, plugins="plugins" in options)

touched = []
def audit(event, arguments):
    if event in ("open", "os.scandir", "os.listdir", "subprocess.Popen", "socket.connect"):
        touched.append((event, str(arguments[0])))
sys.addaudithook(audit)
before = set(sys.modules)
outcome = lifecycle.process("startup", session, bare="bare" in options, sync=True)
after = [name for name in sys.modules if name not in before]
result = {
    "imported": imported,
    "imported_by_startup": after,
    "touched": list(touched),
    "warnings": outcome.warnings,
    "sections": [each.name for each in session.state.prompt_sections],
}
print(json.dumps(result))
"""


def start(base: Path, *options: str) -> dict[str, Any]:
    """Start a session in a fresh process and return what it imported and touched."""
    project = base / "project"
    done = subprocess.run(
        [sys.executable, "-c", START, str(base / "store"), str(project), *options],
        env=child_env(HOME=str(base)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return a folder with a project and a store that has archived and other threads."""
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    for number in range(50):
        (project / "src" / f"{number}.py").write_text("")
    (project / "AGENTS.md").write_text("Use tabs.")
    store = tmp_path / "store"
    for folder in ("sessions/2026/01/01", "archived_sessions"):
        (store / folder).mkdir(parents=True)
        for number in range(20):
            (store / folder / f"rollout-{number}.jsonl").write_text("{}\n")
    return tmp_path


def test_importing_the_lifecycle_imports_nothing_heavy(base: Path) -> None:
    result = start(base, "bare")
    own = {name for name in result["imported"] if name.startswith("amux.")}
    assert own == {
        "amux.lifecycle",
        "amux.lifecycle.builtin_hooks",
        "amux.lifecycle.hook_plugins",
        "amux.lifecycle.hook_results",
        "amux.lifecycle.hooks",
        "amux.lifecycle.lifecycle",
        "amux.lifecycle.live_session",
    }
    assert not set(result["imported"]) & set(HEAVY)
    assert len(result["imported"]) < 12


def test_bare_startup_touches_nothing_at_all(base: Path) -> None:
    result = start(base, "bare", "plugins", "restore")
    assert result["touched"] == []
    assert result["imported_by_startup"] == []
    assert result["sections"] == []


def test_startup_imports_one_small_module(base: Path) -> None:
    result = start(base, "restore")
    assert [name for name in result["imported_by_startup"] if name.startswith("amux")] == [
        "amux.lifecycle.git_state"
    ]
    assert not set(result["imported_by_startup"]) & set(HEAVY)
    assert result["warnings"] == []


def test_startup_opens_the_files_of_this_session_and_its_directory_by_name(base: Path) -> None:
    result = start(base, "restore")
    assert result["sections"] == ["AGENTS.md"]
    opened = [Path(path) for event, path in result["touched"] if event == "open"]
    project = [path for path in opened if path.is_relative_to(base / "project")]
    assert {path.name for path in project} <= {"AGENTS.md", "CLAUDE.md", ".git"}
    assert not [path for path in opened if "archived_sessions" in path.parts]
    old = base / "store" / "sessions" / "2026" / "01" / "01"
    assert not [path for path in opened if path.is_relative_to(old)]
    assert len(opened) < 40


def test_startup_lists_no_folder_of_sessions_and_of_the_project(base: Path) -> None:
    result = start(base, "restore")
    listed = [path for event, path in result["touched"] if event in {"os.scandir", "os.listdir"}]
    inside = {Path(path) for path in listed if Path(path).is_relative_to(base)}
    assert inside <= {base / "store" / "transactions"}  # unfinished writes of a crashed process


def test_startup_starts_no_program_and_opens_no_connection(base: Path) -> None:
    result = start(base, "restore", "plugins")
    assert not [
        event for event, _ in result["touched"] if event in {"subprocess.Popen", "socket.connect"}
    ]


def test_looking_for_plugins_reads_only_metadata(base: Path) -> None:
    without = {path for event, path in start(base, "restore")["touched"] if event == "open"}
    with_plugins = start(base, "restore", "plugins")
    more = {path for event, path in with_plugins["touched"] if event == "open"} - without
    inside = {path for path in more if not Path(path).is_relative_to(base)}
    assert {Path(path).name for path in inside} <= {"entry_points.txt"}
    assert "importlib.metadata" not in with_plugins["imported_by_startup"]


def test_the_rule_stands_at_the_top_of_the_startup_path() -> None:
    body = inspect.getsource(Lifecycle.process).partition('"""')[2].partition('"""')[2]
    assert body.strip().startswith("# NO WARM-UP.")
    source = inspect.getsource(builtin_hooks)
    first = source.index("class DirectoryHook")
    assert "# NO WARM-UP." in source[source.index("# startup") : first]
