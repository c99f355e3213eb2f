"""Checks that hold for every test: the real home is not accessed, no capture is changed."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import SharedHome, capture_named
from child_processes import SOURCES
from drawn import drawn
from hypothesis import settings

from amux.testing import Capture, fingerprint

CAPTURES = Path(__file__).parent / "captures"

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
"""Where agents and amux keep what is private; the checkout itself may lie in the home too."""

_MOVES = (
    *(f"{name.upper().replace('-', '_')}_" for name in (*_DOTTED, *_XDG)),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
)
"""How variables begin that move a store."""

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


_ACCIDENTS = Path(__file__).parent / "faults"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a test reaches counts only where it is reached by example.

    Measuring doubles the time of a test. Hundreds of drawn examples, the same answers after
    hundreds of accidents, and the same comparison for one capture after the other reach nothing
    that the plain tests and the first capture do not. Single tests say so by a mark, `no_cover`.
    """
    measured: set[str] = set()
    for item in items:
        if item.get_closest_marker("slow"):
            continue
        test = item.nodeid.partition("[")[0]
        is_again = test in measured and _is_about_a_capture(item)
        if is_again or _is_drawn(item) or item.path.is_relative_to(_ACCIDENTS):
            item.add_marker("no_cover")
        measured.add(test)


def _is_drawn(item: pytest.Item) -> bool:
    return getattr(getattr(item, "obj", None), "is_hypothesis_test", False)


def _is_about_a_capture(item: pytest.Item) -> bool:
    given: dict[str, object] = getattr(getattr(item, "callspec", None), "params", {})
    return any(isinstance(value, Capture) for value in given.values())


@pytest.fixture(scope="session", autouse=True)
def guarded_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """HOME is an empty directory and stays one; nobody looks at the real one."""
    home = tmp_path_factory.mktemp("guarded-home")
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("HOME", "USERPROFILE"):
            patch.setenv(variable, str(home))
        patch.setenv("PYTHONPATH", SOURCES, prepend=os.pathsep)
        for variable in [name for name in os.environ if name.startswith(_MOVES)]:
            patch.delenv(variable)
        yield home
    assert list(home.iterdir()) == [], "a test wrote into HOME"
    assert _seen == [], "a test looked at the real home"


@pytest.fixture(scope="session", autouse=True)
def untouched_captures() -> Iterator[None]:
    """The proof that reading writes nothing, over the whole run."""
    before = fingerprint(CAPTURES)
    yield
    assert fingerprint(CAPTURES) == before, "a test changed a capture"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home without any agent."""
    place = tmp_path / "home"
    place.mkdir()
    return place


@pytest.fixture
def copy_capture(tmp_path: Path) -> Callable[[str], Path]:
    """Copies a captured home, by the name of its capture; returns the copy."""

    def copy(name: str) -> Path:
        return capture_named(name).copy_to(tmp_path / name)

    return copy


@pytest.fixture(scope="session")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedHome]:
    """Gives the copy of a captured home for tests that only read: one for all of them.

    Making copies took longer than many a test. That nobody wrote is proved at the end.
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
    """Every SQL statement that is run, with its values, by SQLite's own trace."""
    seen: list[str] = []
    connect = sqlite3.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.set_trace_callback(seen.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    return seen
