"""The settings of managed sessions: the documented file, its defaults, layers and mistakes."""

from __future__ import annotations

import os
import stat
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, cast

import msgspec
import pytest
import yaml
from in_threads import at_once

from amux.config import Config, SessionManagementSettings, write_settings
from amux.durable import lock
from amux.errors import AmuxError, ConfigError, ErrorCode, ValidationError
from amux.host import Host

DOCUMENTED = """\
session_management:
  storage:
    base_path: "~/.local/share/multi-agent"
    sqlite_db: "sessions.db"

  agents:
    claude:
      session_file: "claude_sessions.json"
      resume_strategy: "resume_or_new"
      timeout: 300

    droid:
      session_tracking: true
      prompt_required_for_resume: true
      resume_strategy: "manual"

    opencode:
      server_mode: true
      server_url: "http://localhost:4096"
      resume_strategy: "resume_or_new"
      auto_save_interval: 30

  global:
    max_sessions_per_agent: 10
    cleanup_after_days: 30
    auto_save: true
    save_interval: 60
"""
"""The block of the specification, word for word."""

OPENCODE_STORAGE = """\
session:
  auto_save: true
  save_interval: 30  # seconds
  history_limit: 1000  # messages
  cleanup_after: 30  # days
"""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "home")


def write_user(host: Host, text: str, name: str = "config.yaml") -> Path:
    path = host.config_dir() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def leaves(value: dict[str, Any], path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, inner in value.items():
        where = f"{path}.{key}" if path else key
        is_mapping = isinstance(inner, dict)
        found |= leaves(cast("dict[str, Any]", inner), where) if is_mapping else {where: inner}
    return found


def test_the_documented_file_loads_and_says_what_the_defaults_are(host: Host) -> None:
    assert Config.load(host).session_management == SessionManagementSettings()
    write_user(host, DOCUMENTED)
    config = Config.load(host)
    assert config.session_management == SessionManagementSettings()
    assert config.warnings == ()
    documented = leaves(yaml.safe_load(DOCUMENTED)["session_management"])
    actual = leaves(msgspec.to_builtins(SessionManagementSettings()))
    assert {key: actual[key] for key in documented} == documented
    assert len(documented) == 16


def test_the_storage_settings_of_opencode_are_understood(host: Host) -> None:
    block = yaml.safe_load(OPENCODE_STORAGE)
    given = {"session_management": {"agents": {"opencode": block}}}
    config = Config.load(host, overrides=given)
    assert config.warnings == ()
    actual = msgspec.to_builtins(config.session_management.agents.opencode.session)
    assert actual == block["session"]


@pytest.mark.parametrize("name", ["config.yaml", "config.json", "config.toml"])
def test_all_three_formats_are_accepted(host: Host, name: str) -> None:
    texts = {
        "config.yaml": "session_management:\n  global: {save_interval: 5}\n",
        "config.json": '{"session_management": {"global": {"save_interval": 5}}}',
        "config.toml": "[session_management.global]\nsave_interval = 5\n",
    }
    path = write_user(host, texts[name], name)
    config = Config.load(host)
    assert config.session_management.global_.save_interval == 5
    assert config.origin("session_management.global.save_interval") == str(path)


def test_each_layer_overrides_the_ones_below_key_by_key(host: Host, tmp_path: Path) -> None:
    def management(**values: Any) -> dict[str, Any]:
        return {"session_management": {"global": values}}

    user = {**management(save_interval=1, cleanup_after_days=1, max_sessions_per_agent=1)}
    user["profiles"] = {"work": management(max_sessions_per_agent=3, auto_save=False)}
    write_user(host, yaml.safe_dump(user))
    project = tmp_path / "project"
    (project / ".agent-mux").mkdir(parents=True)
    (project / ".agent-mux" / "config.json").write_bytes(
        msgspec.json.encode(management(cleanup_after_days=2, max_sessions_per_agent=2))
    )
    found = Config.load(
        host,
        project,
        profile="work",
        client=management(auto_save=True, cleanup_action="delete"),
        overrides=management(cleanup_action="archive", archive_on_end=True),
    ).session_management.global_
    assert msgspec.structs.asdict(found) == {
        "save_interval": 1,  # user
        "cleanup_after_days": 2,  # project
        "max_sessions_per_agent": 3,  # profile
        "auto_save": True,  # client
        "cleanup_action": "archive",  # call
        "archive_on_end": True,  # call
    }


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("session_management", []),
        ("session_management.storage.base_path", 3),
        ("session_management.storage.sqlite_db", "../sessions.db"),
        ("session_management.agents.claude.resume_strategy", "sometimes"),
        ("session_management.agents.claude.timeout", "300"),
        ("session_management.agents.claude.timeout", 0),
        ("session_management.agents.droid.session_tracking", "yes"),
        ("session_management.agents.opencode.server_url", "localhost:4096"),
        ("session_management.agents.opencode.auto_save_interval", True),
        ("session_management.agents.codex.timeout", -1),
        ("session_management.global.max_sessions_per_agent", 2.5),
        ("session_management.global.cleanup_action", "burn"),
    ],
)
def test_a_wrong_value_is_an_error_with_its_dotted_path(
    host: Host, path: str, value: object
) -> None:
    given: Any = value
    for key in reversed(path.split(".")):
        given = {key: given}
    with pytest.raises(ValidationError) as caught:
        Config.load(host, overrides=given)
    assert caught.value.fields == (path,)


def test_unknown_keys_are_warnings(host: Host) -> None:
    text = DOCUMENTED.replace("timeout: 300", "timeout: 300\n      colour: red")
    write_user(host, text + "  extra: 1\n")
    warnings = Config.load(host).warnings
    assert len(warnings) == 2
    assert "`session_management.agents.claude.colour`" in warnings[0]
    assert "`session_management.extra`" in warnings[1]


def test_a_broken_file_is_an_error_with_its_line(host: Host) -> None:
    write_user(host, DOCUMENTED + "  broken: [\n")
    with pytest.raises(ConfigError, match=r"config\.yaml` line \d+"):
        Config.load(host)


def test_agents_without_keys_of_their_own_have_the_common_ones(host: Host) -> None:
    given = {"session_management": {"agents": {"codex": {"timeout": 9}, "others": {"timeout": 8}}}}
    config = Config.load(host, overrides=given)
    agents = config.session_management.agents
    assert (agents.of("codex").timeout, agents.of("others").timeout) == (9, 8)
    assert agents.of("gemini").timeout == 300
    assert config.origin("session_management.agents.others.codex.timeout") == "call"


# Writing


@pytest.mark.parametrize("name", ["config.yaml", "config.json"])
def test_written_settings_are_merged_and_read_back(tmp_path: Path, name: str) -> None:
    host = Host(tmp_path)
    path = host.config_dir() / name
    write_settings(path, {"timezone": "Europe/Berlin"})
    write_settings(path, {"session_management": {"global": {"save_interval": 7}}})
    write_settings(path, {"timezone": None, "session_management": {"storage": {"sqlite_db": "x"}}})
    config = Config.load(host)
    assert config.timezone == "UTC"
    management = config.session_management
    assert (management.global_.save_interval, management.storage.sqlite_db) == (7, "x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_wrong_and_unknown_settings_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    for wrong in ({"color": "red"}, {"colour": "auto"}):
        with pytest.raises(ValidationError):
            write_settings(path, wrong)
    assert not path.exists()
    with pytest.raises(ValidationError):
        write_settings(tmp_path / "config.toml", {"color": "auto"})


def test_a_broken_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("broken: [")
    with pytest.raises(ConfigError):
        write_settings(path, {"color": "auto"})
    assert path.read_text() == "broken: ["


def test_writers_wait_for_each_other_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "config.json"

    def write(number: int) -> None:
        write_settings(path, {"prices": {f"m-{number}": {"input": 1, "output": number}}})

    at_once([partial(write, number) for number in range(8)])
    assert len(msgspec.json.decode(path.read_bytes())["prices"]) == 8


def test_a_lock_that_is_held_too_long_is_a_recoverable_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from amux import settings_file

    path = tmp_path / "config.json"
    holder = os.open(tmp_path / ".config.json.lock", os.O_RDWR | os.O_CREAT)
    lock(holder)
    try:
        with pytest.raises(AmuxError) as caught:
            settings_file.update_file(path, lambda before: before, wait=0.1)
        waiting = Thread(target=lambda: write_settings(path, {"color": "never"}))
        waiting.start()
    finally:
        os.close(holder)
    assert caught.value.code == ErrorCode.CONFIG_LOCK_ERROR
    assert (caught.value.recoverable, caught.value.exit_code) == (True, 7)
    assert settings_file.LOCK_SECONDS == 5.0
    waiting.join(10)
    assert msgspec.json.decode(path.read_bytes()) == {"color": "never"}
