"""Checks that hold for every test: the real home is not accessed, no capture is changed."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import CAPTURES, SharedHome, capture_named
from child_processes import SOURCES
from drawn import drawn
from hypothesis import settings
from newest_captures import newest_names

from amux.testing import AdapterSuite, Capture, fingerprint

pytest_plugins = ["postgres_fixtures"]

collect_ignore = ["frameworks"]  # has an environment and a configuration of its own

_CAPTURED = Path(__file__).parent / "captures"

_REAL_HOME = Path.home()
_DOTTED = (
    *("agent-mux", "claude", "codex", "copilot", "cursor", "factory", "gemini", "hermes"),
    *("omp", "openclaw", "pi", "qwen"),
)
_XDG = ("amux", "Cursor", "opencode")
_STORES = (
    *(f".{name}" for name in _DOTTED),
    *(f"{place}/{name}" for place in (".cache", ".config", ".local/share") for name in _XDG),
)
_PRIVATE = tuple(f"{_REAL_HOME / store}{os.sep}" for store in _STORES)
"""Directories with private data of agents and amux; the checkout may be in the home, too."""

_MOVES = (
    *(f"{name.upper().replace('-', '_')}_" for name in (*_DOTTED, *_XDG)),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
)
"""Prefixes of environment variables that relocate a store."""

_LOOKS = ("open", "os.listdir", "os.scandir")

_seen: list[str] = []


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if event in _LOOKS and arguments:
        path = arguments[0]
        text = os.fsdecode(path) if isinstance(path, bytes) else str(path)
        if f"{text}{os.sep}".startswith(_PRIVATE):
            _seen.append(text)


sys.addaudithook(_watch)

settings.register_profile("drawn", drawn())
settings.load_profile("drawn")


_FAULTS = "tests/faults/"
_LONG = (
    "tests/adapters/test_list_databases.py::test_every_list_of",
    "tests/adapters/test_list_databases.py::test_what_rows_do_not_tell",
    "tests/adapters/test_list_files.py::test_a_list_does_not_wait",
    "tests/adapters/test_list_files.py::test_a_list_of_several_agents",
    "tests/adapters/test_list_files.py::test_every_list_of",
    "tests/adapters/test_list_files.py::test_the_first_list_of_much",
    "tests/adapters/test_one_session.py::test_every_session_of",
    "tests/annotations/test_annotation_file.py::test_a_killed_writer",
    "tests/architecture/test_public_api.py::test_generated_files",
    "tests/benchmarks/",
    "tests/faces/test_background_indexer.py",
    "tests/faces/test_cli_follow.py",
    "tests/faces/test_cli_interrupt.py",
    "tests/faces/test_cli_list_from_index.py",
    "tests/faces/test_cli_odd_values.py",
    "tests/faces/test_cli_terminal.py",
    "tests/full/",
    "tests/index/test_interleaving.py",
    "tests/index/test_interruptions.py",
    "tests/index/test_processes.py",
    "tests/index/test_search_equal.py::test_searches_in_every_capture",
    "tests/index/test_search_from_index.py::test_files_that_grow",
    "tests/index/test_search_work.py::test_damage_that_shows_only",
    "tests/index/test_threads.py",
    "tests/integrations/test_claude_processes.py",
    "tests/lifecycle/test_chat_examples.py",
    "tests/lifecycle/test_redaction.py::test_processes",
    "tests/lifecycle/test_router.py::test_processes",
    "tests/live/",
    "tests/managed/test_cli_managed.py",
    "tests/managed/test_crashes.py",
    "tests/managed/test_strategies.py",
    "tests/rollout/test_line_file_faults.py",
    "tests/sessions/test_all_agents.py",
    "tests/sessions/test_concurrency.py",
    "tests/sessions/test_find.py::test_an_index_changes_no_outcome",
    "tests/sessions/test_follow_processes.py",
    "tests/sessions/test_types.py::test_every_output_of_a_capture",
    "tests/store/test_session_db_processes.py",
    "tests/test_entry_log_example.py",
    "tests/test_third_party.py",
    _FAULTS,
)
"""Tests that start processes, write large files or repeat one comparison many times."""

_NEWEST = newest_names(CAPTURES)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick",
        action="store_true",
        help="only the tests of `make check`: examples, and the newest capture of each agent",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the tests of `--quick`, and measure coverage only where it is reached by example.

    Measuring doubles the time of a test. Hundreds of generated examples, the same answers after
    hundreds of faults, and the same comparison for one capture after the other reach nothing that
    the plain tests and the first capture do not. Single tests have the marker `no_cover`.
    """
    if config.getoption("quick"):
        quick = {item for item in items if _is_quick(item)}
        config.hook.pytest_deselected(items=[item for item in items if item not in quick])
        items[:] = [item for item in items if item in quick]
    measured: set[str] = set()
    for item in items:
        if item.get_closest_marker("slow"):
            continue
        test = item.nodeid.partition("[")[0]
        is_again = test in measured and bool(_captures(item))
        if is_again or _is_generated(item) or item.nodeid.startswith(_FAULTS):
            item.add_marker("no_cover")
        measured.add(test)


def _is_quick(item: pytest.Item) -> bool:
    if item.get_closest_marker("slow") or item.nodeid.startswith(_LONG):
        return False
    if not all(capture.name in _NEWEST for capture in _captures(item)):
        return False
    return _is_rule(item) or not _is_generated(item)


def _is_rule(item: pytest.Item) -> bool:
    """Return whether the test is one of the published suite."""
    return issubclass(getattr(item, "cls", None) or object, AdapterSuite)


def _is_generated(item: pytest.Item) -> bool:
    """Return whether Hypothesis generates the examples of the test."""
    return getattr(getattr(item, "obj", None), "is_hypothesis_test", False)


def _captures(item: pytest.Item) -> list[Capture]:
    given: dict[str, object] = getattr(getattr(item, "callspec", None), "params", {})
    return [value for value in given.values() if isinstance(value, Capture)]


@pytest.fixture(scope="session", autouse=True)
def guarded_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Set HOME to a directory that must stay empty; fail if a test accesses the real one."""
    home = tmp_path_factory.mktemp("guarded-home")
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("HOME", "USERPROFILE"):
            patch.setenv(variable, str(home))
        patch.setenv("PYTHONPATH", SOURCES, prepend=os.pathsep)
        for variable in [name for name in os.environ if name.startswith(_MOVES)]:
            patch.delenv(variable)
        patch.setenv("AMUX_BACKGROUND", "off")
        yield home
    assert list(home.iterdir()) == [], "a test wrote into HOME"
    assert _seen == [], "a test looked at the real home"


@pytest.fixture(scope="session", autouse=True)
def untouched_captures() -> Iterator[None]:
    """Fail if any test of the run changes a capture."""
    before = fingerprint(_CAPTURED)
    yield
    assert fingerprint(_CAPTURED) == before, "a test changed a capture"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home without any agent."""
    place = tmp_path / "home"
    place.mkdir()
    return place


@pytest.fixture
def copy_capture(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that copies a captured home, given the name of the capture."""

    def copy(name: str) -> Path:
        return capture_named(name).copy_to(tmp_path / name)

    return copy


@pytest.fixture(scope="session")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedHome]:
    """Return a function that gives one shared copy of a captured home to tests that only read.

    Copying took longer than many tests. The fixture fails at the end if a test wrote to a copy.
    """
    place = tmp_path_factory.mktemp("shared")
    homes: dict[str, Path] = {}

    def share(capture: Capture) -> Path:
        if capture.name not in homes:
            homes[capture.name] = capture.copy_to(place / capture.name)
        return homes[capture.name]

    yield share
    for name, home in homes.items():
        assert fingerprint(home) == fingerprint(capture_named(name).home), "a test wrote"


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that receives every executed SQL statement with its values."""
    seen: list[str] = []
    connect = sqlite3.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.set_trace_callback(seen.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    return seen
