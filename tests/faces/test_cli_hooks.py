"""`amux hooks list`: every hook that would run, and where it comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from cli_process import Cli

NOTES = {
    "name": "notes",
    "command": ["true"],
    "applies_to": ["startup", "clear"],
    "priority": 50,
}
OFF = {"name": "off", "command": ["true"], "enabled": False}


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """An empty home."""
    home = tmp_path / "home"
    home.mkdir()
    return Cli(home)


def write_hooks(folder: Path, *entries: object) -> None:
    folder.mkdir(mode=0o700, parents=True)
    path = folder / "hooks.json"
    path.write_bytes(msgspec.json.encode({"hooks": entries}))
    path.chmod(0o600)


def listed(cli: Cli, *words: str) -> dict[str, dict[str, Any]]:
    found = cli("hooks", "list", "--json", *words)
    assert (found.code, found.err) == (0, "")
    return {each["name"]: each for each in found.json()}


def test_without_settings_the_built_in_hooks_are_listed_in_their_order(cli: Cli) -> None:
    hooks = list(listed(cli).values())
    assert {"amux.instructions", "amux.restore", "amux.clear", "amux.compact"} <= {
        each["name"] for each in hooks
    }
    assert {(each["origin"], each["trust"], each["enabled"]) for each in hooks} == {
        ("built-in", "managed", True)
    }
    priorities = [each["priority"] for each in hooks]
    assert priorities == sorted(priorities)
    assert not any(cli.home.iterdir())  # a list creates nothing


def test_hooks_of_the_configuration_directory_are_listed(cli: Cli) -> None:
    write_hooks(cli.home / ".agent-mux", NOTES, OFF)
    hooks = listed(cli)
    assert hooks["notes"] == {
        "name": "notes",
        "origin": "hooks.json",
        "trust": "user",
        "priority": 50,
        "enabled": True,
        "appliesTo": ["clear", "startup"],
    }
    assert hooks["off"]["enabled"] is False
    assert list(hooks)[-1] == "off"  # with the default priority, after all others


def test_the_configuration_directory_can_be_chosen(cli: Cli, tmp_path: Path) -> None:
    write_hooks(tmp_path / "elsewhere", NOTES)
    assert "notes" in listed(cli, "--config-dir", str(tmp_path / "elsewhere"))
    assert "notes" not in listed(cli)


def test_hooks_of_installed_packages_are_listed_as_plugins(cli: Cli, tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    about = packages / "greeting-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[amux.lifecycle]\ngreeting = greeting:Greeting\n")
    (packages / "greeting.py").write_text(
        "import amux\n\n\nclass Greeting(amux.LifecycleHook):\n    priority = 7\n"
    )
    path = f"{packages}:{cli.env.get('PYTHONPATH', '')}"
    greeting = listed(Cli(cli.home, {"PYTHONPATH": path}))["greeting"]
    assert (greeting["origin"], greeting["trust"]) == ("plugins", "plugin")
    assert (greeting["priority"], greeting["enabled"]) == (7, True)


def test_a_bad_entry_is_a_warning_and_the_others_are_listed(cli: Cli) -> None:
    write_hooks(cli.home / ".agent-mux", {"name": "bad"}, NOTES)
    found = cli("hooks")
    assert found.code == 0
    assert "hook 1 of" in found.err
    assert ["notes", "hooks.json", "user", "50", "yes", "clear, startup"] in found.rows()


def test_a_terminal_shows_a_table(cli: Cli) -> None:
    write_hooks(cli.home / ".agent-mux", OFF)
    shown = cli("hooks", "--color", "always").out
    assert all(word in shown for word in ("Hook", "From", "Trust", "Priority", "Enabled"))
    assert "hooks.json" in shown
