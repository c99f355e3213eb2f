"""The host as an argument: the home directory, and the paths derived from it on each platform."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from amux.host import Host
from amux.testing.reading import opened_files

HOME = Path("/home/dev")


@pytest.mark.parametrize(
    ("platform", "variable"), [("linux", "HOME"), ("darwin", "HOME"), ("win32", "USERPROFILE")]
)
def test_home_is_named_by_the_platforms_own_variable(
    platform: str, variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("HOME", str(tmp_path / "other"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "other"))
    monkeypatch.setenv(variable, str(tmp_path / "mine"))
    host = Host.from_process()
    assert host.home == tmp_path / "mine"
    assert host.env[variable] == str(tmp_path / "mine")


def test_without_the_variable_the_home_comes_from_the_user_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HOME")
    assert Host.from_process().home.is_absolute()


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("~", HOME),
        ("~/x", HOME / "x"),
        ("~\\x", HOME / "x"),
        ("/abs", Path("/abs")),
        ("rel/x", HOME / "rel/x"),
        ("~user", HOME / "~user"),
    ],
)
def test_a_path_given_by_the_user_becomes_absolute(text: str, path: Path) -> None:
    assert Host(HOME).expand(text) == path


@pytest.mark.parametrize("value", ["", "  "])
def test_a_blank_variable_counts_as_unset(value: str) -> None:
    assert Host(HOME, env={"X": value}).path_from("X") is None
    assert Host(HOME).path_from("X") is None


@pytest.mark.parametrize(
    ("platform", "data", "settings", "cache"),
    [
        ("linux", ".local/share", ".config", ".cache/amux"),
        (
            "darwin",
            "Library/Application Support",
            "Library/Application Support",
            "Library/Caches/amux",
        ),
        ("win32", "AppData/Local", "AppData/Roaming", "AppData/Local/amux"),
    ],
)
def test_directories_follow_the_platform(
    platform: str, data: str, settings: str, cache: str
) -> None:
    with opened_files() as opened:
        host = Host(HOME, platform=platform)
        assert host.xdg_data_home() == HOME / data
        assert host.data_dir() == HOME / data / "amux"
        assert host.xdg_config_home() == HOME / settings
        assert host.cache_dir() == HOME / cache
        assert host.config_dir() == HOME / ".agent-mux"
    assert opened == []


def test_variables_go_before_the_platform() -> None:
    env = {
        "XDG_DATA_HOME": "/d",
        "XDG_CONFIG_HOME": "/s",
        "XDG_CACHE_HOME": "/c",
        "AGENT_MUX_CONFIG_DIR": "~/own",
    }
    for platform in ("linux", "darwin", "win32"):
        host = Host(HOME, env=env, platform=platform)
        assert (host.xdg_data_home(), host.xdg_config_home()) == (Path("/d"), Path("/s"))
        assert host.data_dir() == Path("/d/amux")
        assert host.cache_dir() == Path("/c/amux")
        assert host.config_dir() == HOME / "own"
    own = Host(HOME, env={**env, "AMUX_CACHE_DIR": "/mine", "AMUX_DATA_DIR": "~/notes"})
    assert (own.cache_dir(), own.data_dir()) == (Path("/mine"), HOME / "notes")
    windows = Host(HOME, env={"LOCALAPPDATA": "/l", "APPDATA": "/r"}, platform="win32")
    assert (windows.xdg_data_home(), windows.xdg_config_home()) == (Path("/l"), Path("/r"))
