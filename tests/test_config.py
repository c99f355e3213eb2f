"""Settings come from layers, and each value names its layer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from amux.config import Config, PriceSettings, read_prices
from amux.errors import AmuxError, ConfigError, ErrorCode, ValidationError
from amux.host import Host


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "home")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def write_user(host: Host, text: str, name: str = "config.yaml") -> Path:
    return write(host.config_dir() / name, text)


def test_no_file_means_defaults(host: Host) -> None:
    config = Config.load(host)
    assert config == Config()
    assert (config.default_agent, config.timezone, config.color) == (None, "UTC", "auto")
    assert config.origin("timezone") == "default"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.yaml", "timezone: Europe/Berlin\nprices:\n  gpt-5.1: {input: 1, output: 2.5}\n"),
        ("config.yml", "timezone: Europe/Berlin\nprices:\n  gpt-5.1: {input: 1, output: 2.5}\n"),
        (
            "config.json",
            '{"timezone": "Europe/Berlin", "prices": {"gpt-5.1": {"input": 1, "output": 2.5}}}',
        ),
        (
            "config.toml",
            'timezone = "Europe/Berlin"\n[prices."gpt-5.1"]\ninput = 1\noutput = 2.5\n',
        ),
    ],
)
def test_yaml_json_and_toml_give_the_same_settings(host: Host, name: str, text: str) -> None:
    path = write_user(host, text, name)
    config = Config.load(host)
    assert config.timezone == "Europe/Berlin"
    assert config.prices == {"gpt-5.1": PriceSettings(input=1, output=2.5)}
    assert config.origin("timezone") == str(path)
    assert config.origin("prices.gpt-5.1.output") == str(path)


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ((), "auto"),
        (("user",), "always"),
        (("user", "project"), "never"),
        (("user", "project", "profile"), "always"),
        (("user", "project", "profile", "client"), "never"),
        (("user", "project", "profile", "client", "call"), "auto"),
    ],
)
def test_the_more_specific_settings_win(
    host: Host, tmp_path: Path, layers: tuple[str, ...], expected: str
) -> None:
    user = write_user(host, "profiles: {p: {}}")
    project = write(tmp_path / "project/.agent-mux/config.yaml", "profiles: {p: {}}")
    if "user" in layers:
        write(user, "color: always\nprofiles: {p: {color: always}}")
    if "project" in layers:
        write(project, "color: never")
    config = Config.load(
        host,
        tmp_path / "project" / "src",
        client={"color": "never"} if "client" in layers else None,
        overrides={"color": "auto"} if "call" in layers else None,
        profile="p" if "profile" in layers else None,
    )
    assert config.color == expected
    origins = {"user": str(user), "project": str(project), "profile": str(user)}
    last = layers[-1] if layers else "default"
    assert config.origin("color") == origins.get(last, last)


def test_mappings_are_merged_and_lists_are_replaced(host: Host, tmp_path: Path) -> None:
    write_user(
        host,
        "agents: {claude: {roots: [/a, /b]}, codex: {roots: [~/x]}}\n"
        "prices: {m: {input: 1, output: 2}}",
    )
    write(
        tmp_path / "project/.agent-mux/config.yaml",
        "agents: {claude: {roots: [/c]}}\nprices: {m: {output: 3}}",
    )
    config = Config.load(host, tmp_path / "project")
    assert config.agents["claude"].roots == (Path("/c"),)
    assert config.agents["codex"].roots == (host.home / "x",)
    assert config.prices == {"m": PriceSettings(input=1, output=3)}


def test_a_profile_of_the_project_extends_the_users(host: Host, tmp_path: Path) -> None:
    write_user(host, "profiles: {work: {default_agent: codex, color: never}}")
    write(tmp_path / "p/.agent-mux/config.yaml", "profiles: {work: {color: always}}")
    config = Config.load(host, tmp_path / "p", profile="work")
    assert (config.default_agent, config.color) == ("codex", "always")
    assert config.profiles == ("work",)


def test_an_unknown_profile_is_an_error_that_names_the_known_ones(host: Host) -> None:
    write_user(host, "profiles: {work: {}}")
    with pytest.raises(AmuxError) as caught:
        Config.load(host, profile="play")
    assert (caught.value.code, caught.value.exit_code) == (ErrorCode.PROFILE_NOT_FOUND, 9)
    assert caught.value.hint == "defined profiles: work"


def test_variables_set_the_user_and_the_project_folder(tmp_path: Path) -> None:
    env = {
        "AGENT_MUX_CONFIG_DIR": str(tmp_path / "user"),
        "AGENT_MUX_PROJECT_DIR": str(tmp_path / "project"),
    }
    write(tmp_path / "user/config.json", '{"color": "never", "timezone": "Asia/Tokyo"}')
    write(tmp_path / "project/config.json", '{"color": "always"}')
    host = Host(tmp_path / "home", env=env)
    config = Config.load(host, tmp_path)
    assert (config.color, config.timezone) == ("always", "Asia/Tokyo")
    assert list(host.project_folders(tmp_path)) == [tmp_path / "project"]


def test_the_user_folder_is_not_used_as_a_project_folder(host: Host) -> None:
    folders = list(host.project_folders(host.home / "code"))
    assert host.home / "code" / ".agent-mux" in folders
    assert host.config_dir() not in folders


def test_a_project_folder_that_cannot_be_examined_has_no_settings(
    host: Host, tmp_path: Path
) -> None:
    assert Config.load(host, tmp_path / ("too long a name " * 100)) == Config()


def test_a_call_may_give_tuples_and_set_a_default_again(host: Host) -> None:
    write_user(host, "timezone: Asia/Tokyo")
    config = Config.load(
        host, overrides={"timezone": "UTC", "agents": {"codex": {"roots": ("/x",)}}}
    )
    assert (config.timezone, config.origin("timezone")) == ("UTC", "call")
    assert config.agents["codex"].roots == (Path("/x"),)


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("config.yaml", "color: auto\nagents: [unclosed\n", "line 3"),
        ("config.yaml", "color: auto\n\tindented: by a tab\n", "line 2"),
        ("config.json", '{\n  "color": "auto",\n  broken\n}', "line 3"),
        ("config.json", "", "line 1"),
        ("config.toml", 'color = "auto"\ntimezone = \n', "line 2"),
        ("config.yaml", "- a\n- list\n", "line 1"),
        ("config.json", "[1]", "line 1"),
    ],
)
def test_a_broken_file_is_an_error_with_its_path_and_position(
    host: Host, name: str, text: str, place: str
) -> None:
    path = write_user(host, text, name)
    with pytest.raises(ConfigError) as caught:
        Config.load(host)
    assert str(path) in str(caught.value)
    assert place in str(caught.value)
    assert caught.value.exit_code == 7


def test_bytes_that_are_not_utf8_are_an_error_with_their_line(host: Host) -> None:
    path = write_user(host, "")
    path.write_bytes(b"color: auto\ntimezone: \xff\n")
    with pytest.raises(ConfigError, match="line 2 is not UTF-8"):
        Config.load(host)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"color": "blue"}, "color"),
        ({"color": True}, "color"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"timezone": "../../etc/passwd"}, "timezone"),
        ({"timezone": 2}, "timezone"),
        ({"default_agent": ""}, "default_agent"),
        ({"agents": {"claude": {"roots": "/one"}}}, "agents.claude.roots"),
        ({"agents": {"claude": {"roots": ["/one", 2]}}}, "agents.claude.roots"),
        ({"agents": []}, "agents"),
        ({"prices": {"gpt-5.1": {"input": "1"}}}, "prices.gpt-5.1.input"),
        ({"prices": {"m": {"input": -1, "output": 1}}}, "prices.m.input"),
        ({"prices": {"m": {"input": True, "output": 1}}}, "prices.m.input"),
        ({"prices": {"m": {"input": float("nan"), "output": 1}}}, "prices.m.input"),
        ({"prices": {"m": {"input": 10**400, "output": 1}}}, "prices.m.input"),
        ({"prices": {"m": {"input": 1}}}, "prices.m.output"),
        ({"profiles": {"p": {"color": 1}}}, "profiles.p.color"),
    ],
)
def test_a_wrong_value_is_an_error_with_its_dotted_path(
    host: Host, given: dict[str, Any], path: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        Config.load(host, overrides=given)
    assert caught.value.fields == (path,)
    assert f"`{path}`" in str(caught.value)


def test_a_wrong_value_in_a_file_names_the_file(host: Host) -> None:
    path = write_user(host, "color: blue")
    with pytest.raises(ValidationError) as caught:
        Config.load(host)
    assert str(path) in str(caught.value)


def test_unknown_keys_are_warnings(host: Host) -> None:
    path = write_user(host, "colour: never\nagents: {claude: {rots: [/a]}}\n1: one\ncolor: never")
    config = Config.load(host)
    assert config.color == "never"
    assert config.warnings == (
        f"unknown key `colour` in {path}",
        f"unknown key `agents.claude.rots` in {path}",
        f"unknown key `1` in {path}",
    )


def test_a_second_file_in_one_folder_is_a_warning(host: Host) -> None:
    path = write_user(host, "color: never")
    other = write_user(host, '{"color": "always"}', "config.json")
    config = Config.load(host)
    assert config.color == "never"
    assert config.warnings == (f"`{other}` is ignored because `{path}` exists",)


def test_null_and_an_empty_file_set_nothing(host: Host, tmp_path: Path) -> None:
    write_user(host, "color: never\n")
    write(tmp_path / "p/.agent-mux/config.yaml", "color:\nagents:\n")
    assert Config.load(host, tmp_path / "p").color == "never"
    write(tmp_path / "p/.agent-mux/config.yaml", "# nothing yet\n")
    assert Config.load(host, tmp_path / "p").color == "never"


def test_a_yaml_file_that_contains_itself_does_no_harm(host: Host) -> None:
    write_user(host, "loop: &a {again: *a}\ncolor: never")
    assert Config.load(host).color == "never"


@pytest.mark.parametrize("text", ["m: {input: 1, output: 2}", "prices: {m: {input: 1, output: 2}}"])
def test_prices_may_have_a_file_of_their_own(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "prices.yaml", text)
    assert read_prices(path) == {"m": PriceSettings(input=1, output=2)}


def test_a_missing_price_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"prices\.yaml"):
        read_prices(tmp_path / "prices.yaml")


@pytest.mark.parametrize(
    ("name", "text", "loaded"),
    [
        (None, "", set[str]()),
        ("config.json", "{}", set[str]()),
        ("config.toml", "", {"tomllib"}),
        ("config.yaml", "", {"yaml"}),
    ],
)
def test_a_parser_is_imported_only_for_a_file_of_its_kind(
    host: Host, name: str | None, text: str, loaded: set[str]
) -> None:
    if name is not None:
        write_user(host, text, name)
    program = (
        "import sys, pathlib; from amux.config import Config; from amux.host import Host;"
        "Config.load(Host(pathlib.Path(sys.argv[1])));"
        "print(*sorted({'yaml', 'tomllib', 'zoneinfo'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(host.home)], capture_output=True, text=True, check=True
    )
    assert set(result.stdout.split()) == loaded
