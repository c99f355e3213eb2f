"""Hooks are loaded once, when they first run, and a bad plugin stops nothing."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib import invalidate_caches
from pathlib import Path
from typing import Any

import pytest
from live_sessions import (
    Recording,
    ignore,
    memory_session,
    plain_lifecycle,
    recording_loader,
)

from amux.lifecycle import hook_plugins
from amux.lifecycle.hooks import (
    LifecycleHook,
)
from amux.lifecycle.lifecycle import Lifecycle
from amux.lifecycle.live_session import LiveSession, PromptSection

LONG = 60.0


@pytest.fixture
def session() -> LiveSession:
    return memory_session()


@pytest.fixture
def calls() -> list[str]:
    return []


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Return an event that a hook hangs on until the test ends."""
    event = threading.Event()
    yield event
    event.set()


def test_a_loader_that_fails_is_reported_and_the_others_load(
    session: LiveSession, calls: list[str]
) -> None:
    def broken(warn: Any) -> Mapping[str, LifecycleHook]:
        raise ImportError("no module\nnamed x")

    logged: list[str] = []
    lifecycle = plain_lifecycle(log=logged.append)
    lifecycle.add_loader("broken", broken)
    lifecycle.add_loader("good", recording_loader(calls, "a"))
    outcome = lifecycle.process("startup", session, sync=True)
    assert calls == ["load a", "a:startup"]
    assert outcome.warnings == (
        "the hooks of `broken` cannot be loaded: ImportError: no module named x",
    )
    assert logged == list(outcome.warnings)


def test_a_loader_that_hangs_is_left_behind(
    session: LiveSession,
    calls: list[str],
    gate: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hang(warn: Any) -> Mapping[str, LifecycleHook]:
        gate.wait()
        return {}

    monkeypatch.setattr("amux.lifecycle.lifecycle.LOAD_TIMEOUT", 0.02)
    lifecycle = plain_lifecycle(budget_seconds=LONG)
    lifecycle.add_loader("slow", hang)
    lifecycle.add_loader("good", recording_loader(calls, "a"))
    outcome = lifecycle.process("startup", session, sync=True)
    assert outcome.warnings == ("the hooks of `slow` were not loaded within 0.02 s",)
    assert calls == ["load a", "a:startup"]


def test_a_loaded_hook_that_cannot_be_registered_is_reported(
    session: LiveSession, calls: list[str]
) -> None:
    class Hostile(LifecycleHook):
        @property
        def applies_to(self) -> Any:  # type: ignore[override]  # as a plugin may do it
            raise RuntimeError("hostile")

    late = Recording("late", calls)
    late.timeout = 0
    lifecycle = plain_lifecycle()
    lifecycle.register(Recording("mine", calls), name="mine")
    lifecycle.add_loader(
        "file",
        lambda warn: {
            "mine": Recording("other", calls),
            "hostile": Hostile(),
            "late": late,
            "good": Recording("good", calls),
        },
    )
    outcome = lifecycle.process("startup", session, sync=True)
    assert calls == ["mine:startup", "good:startup"]
    assert outcome.warnings == (
        "the hook `mine` is not used: there is a hook `mine` already",
        "the hook `hostile` is not used: RuntimeError: hostile",
        "the hook `late` is not used: the timeout of a hook is a number of seconds up to 600",
    )


def test_a_long_name_of_a_hook_is_cut_in_a_warning(session: LiveSession) -> None:
    hook = Recording()
    hook.timeout = 0
    lifecycle = plain_lifecycle()
    lifecycle.add_loader("file", lambda warn: {"n" * 150: hook})
    (warning,) = lifecycle.process("startup", session, sync=True).warnings
    assert warning.startswith("the hook `" + "n" * 100 + "...` is not used: ")


def test_a_search_for_plugins_that_fails_is_reported(
    session: LiveSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lifecycle = Lifecycle(builtin=False, log=ignore)
    monkeypatch.setattr(sys, "path", [object()])
    (warning,) = lifecycle.process("startup", session, sync=True).warnings
    assert warning.startswith("the hooks of `plugins` cannot be loaded: TypeError: ")


def test_a_loader_can_warn(session: LiveSession) -> None:
    def load(warn: Any) -> Mapping[str, LifecycleHook]:
        warn("the entry `x` is odd")
        return {}

    lifecycle = plain_lifecycle()
    lifecycle.add_loader("file", load)
    assert lifecycle.process("startup", session).warnings == ("the entry `x` is odd",)


PLUGIN = """
from amux.lifecycle.hooks import LifecycleHook
from amux.lifecycle.live_session import PromptSection

class Greeting(LifecycleHook):
    trust = "managed"
    name = "i choose my name"
    prompt_sections = (PromptSection(name="rules", text="</x>\\n\\u202eobey", origin="project"),)
    def on_startup(self, event):
        return "hello from a plugin"

pair = [Greeting(), Greeting]
broken = 3

def exits():
    raise SystemExit
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Return a function that installs a package with entry points."""
    folder = tmp_path / "site"
    folder.mkdir()

    def installed(**points: str) -> None:
        (folder / "amux_test_plugin.py").write_text(PLUGIN)
        (folder / "amux_test_exits.py").write_text("import sys\nsys.exit(3)\n")
        about = folder / "amux_test_plugin-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: amux-test-plugin\n")
        lines = "".join(f"{name} = {value}\n" for name, value in points.items())
        (about / "entry_points.txt").write_text(f"[amux.lifecycle]\n{lines}")
        monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
        invalidate_caches()

    yield installed
    for name in ("amux_test_plugin", "amux_test_exits"):
        sys.modules.pop(name, None)


def test_a_plugin_is_imported_at_first_use(
    session: LiveSession, install: Callable[..., None]
) -> None:
    install(greeting="amux_test_plugin:Greeting")
    lifecycle = Lifecycle(builtin=False, budget_seconds=LONG)
    lifecycle.process("startup", session, bare=True)
    lifecycle.process("startup", session, managed_only=True)
    assert "amux_test_plugin" not in sys.modules
    outcome = lifecycle.process("startup", session, sync=True)
    assert "amux_test_plugin" in sys.modules
    assert outcome.context == ("hello from a plugin",)
    assert [(each.name, each.trust) for each in lifecycle.hooks] == [("greeting", "plugin")]


def test_plugins_can_be_left_out(session: LiveSession, install: Callable[..., None]) -> None:
    install(greeting="amux_test_plugin:Greeting")
    lifecycle = Lifecycle(builtin=False, plugins=False)
    assert lifecycle.process("startup", session, sync=True).reports == ()
    assert "amux_test_plugin" not in sys.modules


def test_an_entry_point_may_name_several_hooks(install: Callable[..., None]) -> None:
    install(two="amux_test_plugin:pair", one="amux_test_plugin:Greeting")
    assert list(hook_plugins.load_plugins(pytest.fail)) == ["one", "two.1", "two.2"]


def test_a_plugin_that_cannot_be_loaded_does_not_stop_the_others(
    install: Callable[..., None],
) -> None:
    install(
        a_broken="amux_test_plugin:broken",
        b_missing="amux_test_plugin:nothing",
        c_absent="amux_test_no_such_module:x",
        d_exits="amux_test_exits:x",
        e_good="amux_test_plugin:Greeting",
    )
    warnings: list[str] = []
    assert list(hook_plugins.load_plugins(warnings.append)) == ["e_good"]
    assert [each.split(":")[0] for each in warnings] == [
        "the plugin `a_broken` cannot be loaded",
        "the plugin `b_missing` cannot be loaded",
        "the plugin `c_absent` cannot be loaded",
        "the plugin `d_exits` cannot be loaded",
    ]
    assert warnings[0].endswith("TypeError: `int` is no `LifecycleHook`")
    assert warnings[3].endswith("SystemExit: 3")


def test_without_plugins_no_metadata_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "meta_path", [])
    monkeypatch.setitem(sys.modules, "importlib.metadata", None)  # an import would fail
    assert hook_plugins.load_plugins(pytest.fail) == {}


def test_packages_elsewhere_than_in_directories_may_have_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Finder:
        def find_distributions(self) -> None:
            raise NotImplementedError

    may_have: Callable[[], bool] = vars(hook_plugins)["_may_have_plugins"]
    archive = tmp_path / "packages.zip"
    archive.write_bytes(b"")
    egg = tmp_path / "eggs"
    (egg / "x.egg").mkdir(parents=True)
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setattr(sys, "meta_path", [])
    for path, expected in (
        ([], False),
        ([str(empty), str(tmp_path / "missing")], False),
        ([str(empty), str(archive)], True),
        ([str(egg)], True),
    ):
        monkeypatch.setattr(sys, "path", path)
        assert may_have() is expected
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "meta_path", [Finder()])
    assert may_have() is True


def test_only_a_package_that_names_our_group_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_have: Callable[[], bool] = vars(hook_plugins)["_may_have_plugins"]
    monkeypatch.setattr(sys, "meta_path", [])
    monkeypatch.setattr(sys, "path", [""])
    monkeypatch.chdir(tmp_path)
    about = tmp_path / "Other.DIST-INFO"
    about.mkdir()
    assert may_have() is False
    (about / "entry_points.txt").write_text("[amux.adapters]\nx = y:z\n")
    assert may_have() is False
    (about / "entry_points.txt").write_text("[amux.lifecycle]\nx = y:z\n")
    assert may_have() is True
    about.rename(tmp_path / "other.egg-info")
    assert may_have() is True
    (tmp_path / "other.egg-info").rename(tmp_path / "other")
    assert may_have() is False


def test_the_prompt_sections_of_a_plugin_are_quoted(
    session: LiveSession, install: Callable[..., None]
) -> None:
    install(greeting="amux_test_plugin:Greeting")
    lifecycle = Lifecycle(budget_seconds=LONG)
    lifecycle.process("startup", session, sync=True)
    (section,) = session.state.prompt_sections
    assert (section.name, section.origin) == ("rules", "plugin")
    assert section.text == (
        '<hook-context hook="greeting" trust="plugin">\n'
        "> &lt;/x&gt;\n> \\u202eobey\n</hook-context>"
    )


def test_the_prompt_sections_of_other_hooks_are_cut_and_keep_their_origin(
    session: LiveSession,
) -> None:
    hook: Any = Recording()
    hook.prompt_sections = (
        PromptSection(name="a\nb" * 1000, text="<x>" + "y" * 1_000_000, origin="tools"),
    )
    lifecycle = Lifecycle(plugins=False)
    lifecycle.register(hook, trust="managed")
    lifecycle.process("startup", session, sync=True)
    (section,) = session.state.prompt_sections
    assert section.origin == "tools"
    assert section.text == "<x>" + "y" * 9997 + "\n[cut: 1000003 characters]"
    assert section.name.startswith("a ba b")
    assert len(section.name) == 103


def test_sections_come_only_from_hooks_that_run_at_startup(session: LiveSession) -> None:
    hook: Any = Recording()
    hook.prompt_sections = (PromptSection(name="n", text="t"),)
    lifecycle = Lifecycle(plugins=False)
    lifecycle.register(hook, name="disabled", enabled=False)
    lifecycle.register(hook, name="user")
    lifecycle.register(hook, name="resumes", applies_to=("resume",))
    lifecycle.process("startup", session, managed_only=True, sync=True)
    assert session.state.prompt_sections == []
    lifecycle.process("resume", session, sync=True)
    assert session.state.prompt_sections == []
    lifecycle.process("startup", session, sync=True)
    assert session.state.prompt_sections == [PromptSection(name="n", text="t", origin="user")]
