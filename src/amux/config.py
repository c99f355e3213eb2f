"""Settings: the layers they come from, their types, and which layer set each value.

    call > client > profile > project .agent-mux/config.* > user ~/.agent-mux/config.* > defaults

Mappings are merged deeply, lists are replaced, and a null value is ignored. A missing file sets
nothing. Settings are never dropped silently: a file that cannot be parsed raises ConfigError with
the line, an unreadable directory raises ConfigError, and a value of the wrong type raises
ValidationError with its dotted path. Unknown keys are collected as warnings. YAML, JSON and TOML
are accepted; a parser is imported only if a file of that format exists.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

import msgspec

from amux.errors import AmuxError, ConfigError, ErrorCode, ValidationError
from amux.host import Host

FILE_NAMES = ("config.yaml", "config.yml", "config.json", "config.toml")

Color = Literal["auto", "always", "never"]
_HIGHEST_PRICE = 1_000_000.0
_JSON_BYTE = re.compile(r"\(byte (\d+)\)")


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one agent. `roots` are further directories that hold its sessions."""

    roots: tuple[Path, ...] = ()


class PriceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A user-provided price in USD per million tokens."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The merged settings. `timezone` is the IANA name of the zone by which days are grouped."""

    default_agent: str | None = None
    timezone: str = "UTC"
    color: Color = "auto"
    agents: dict[str, AgentSettings] = {}
    prices: dict[str, PriceSettings] = {}
    profiles: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    origins: dict[str, str] = {}

    @classmethod
    def load(
        cls,
        host: Host,
        project_dir: Path | None = None,
        *,
        overrides: Mapping[str, Any] | None = None,
        client: Mapping[str, Any] | None = None,
        profile: str | None = None,
    ) -> Config:
        """Merge all layers. Project settings are searched in `project_dir` and its parents."""
        merged = _Merged()
        project = next((f for f in host.project_folders(project_dir) if _files_in(f)), None)
        for folder in (host.config_dir(), project):
            if folder is not None:
                merged.add_file_in(folder)
        if profile is not None:
            merged.add_profile(profile)
        for origin, given in (("client", client), ("call", overrides)):
            if given is not None:
                merged.add(given, origin)
        return _build(merged, host)

    def origin(self, key: str) -> str:
        """Return what set the value at a dotted path: a file, "client", "call" or "default"."""
        return self.origins.get(key, "default")


def read_prices(path: Path) -> dict[str, PriceSettings]:
    """Read a price file: `{model: {input, output, ...}}`, optionally below the key `prices`."""
    data = _parse(path)
    merged = _Merged()
    merged.add(data if "prices" in data else {"prices": data}, str(path))
    return _build_prices(merged.values)


# Reading one file


def _files_in(folder: Path) -> list[Path]:
    try:
        return [path for name in FILE_NAMES if (path := folder / name).is_file()]
    except OSError as error:
        if _is_folder(folder):
            raise ConfigError(f"`{folder}` cannot be read ({error.strerror})") from error
        return []


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a parent directory is unreadable: there may be no settings at all
        return False


def _parse(path: Path) -> dict[str, Any]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"`{path}` cannot be read ({error.strerror})") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"`{path}` line {line} is not UTF-8") from error
    parser = {".json": _parse_json, ".toml": _parse_toml}.get(path.suffix, _parse_yaml)
    data = parser(text, path)
    if not isinstance(data, dict):
        raise ConfigError(f"`{path}` line 1 must begin a mapping of settings")
    return cast("dict[str, Any]", data)  # keys are checked where they are used


def _parse_json(text: str, path: Path) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        found = _JSON_BYTE.search(str(error))
        at = int(found[1]) if found else 0
        line = text.encode().count(b"\n", 0, at) + 1
        raise ConfigError(f"`{path}` line {line} is not valid JSON ({error})") from error


def _parse_toml(text: str, path: Path) -> object:
    import tomllib

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"`{path}` is not valid TOML ({error})") from error  # names the line


def _parse_yaml(text: str, path: Path) -> object:
    import yaml

    try:
        data: object = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        location = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        line = f" line {location.line + 1}" if location is not None else ""
        reason = " ".join(str(error).split())
        raise ConfigError(f"`{path}`{line} is not valid YAML ({reason})") from error
    return {} if data is None else data


# Types of settings


class _ValueType(NamedTuple):
    expected: str
    accepts: Callable[[object], bool]


_Schema: TypeAlias = "Mapping[str, _Schema | _ValueType]"
_ANY = "*"


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(
        _is_text(item) for item in cast("list[object]", value)
    )


def _is_price(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= _HIGHEST_PRICE


def _is_color(value: object) -> bool:
    return isinstance(value, str) and value in get_args(Color)


def _is_timezone(value: object) -> bool:
    if value == "UTC":  # needs no time zone database, which Windows does not have
        return True
    from zoneinfo import ZoneInfo

    try:
        return isinstance(value, str) and bool(ZoneInfo(value))
    except (KeyError, ValueError, OSError):
        return False


_PRICE = _ValueType("a number of USD per million tokens", _is_price)
_SETTINGS: dict[str, _Schema | _ValueType] = {
    "default_agent": _ValueType("the name of an agent", _is_text),
    "timezone": _ValueType("a time zone such as `Europe/Berlin`", _is_timezone),
    "color": _ValueType("`auto`, `always` or `never`", _is_color),
    "agents": {_ANY: {"roots": _ValueType("a list of directories", _is_list_of_texts)}},
    "prices": {
        _ANY: dict.fromkeys(
            ("input", "output", "cache_read", "cache_write", "cache_write_1h"), _PRICE
        )
    },
}
_SCHEMA: _Schema = {**_SETTINGS, "profiles": {_ANY: _SETTINGS}}


def _checked(
    value: object, schema: _Schema | _ValueType, path: str, warn: Callable[[str], None]
) -> object:
    """Return a value without unknown keys; raise ValidationError if its type is wrong."""
    if isinstance(schema, _ValueType):
        if not schema.accepts(value):
            raise _invalid(path, value, schema.expected)
        return value
    if not isinstance(value, Mapping):
        raise _invalid(path, value, "a mapping")
    known: dict[str, object] = {}
    for key, inner in cast("Mapping[object, object]", value).items():
        where = f"{path}.{key}" if path else str(key)
        rule = schema.get(key, schema.get(_ANY)) if isinstance(key, str) else None
        if rule is None:
            warn(where)
        elif inner is not None:
            known[cast("str", key)] = _checked(inner, rule, where, warn)
    return known


def _invalid(path: str, value: object, expected: str) -> ValidationError:
    return ValidationError(
        f"`{path or 'settings'}` must be {expected}, not `{reprlib.repr(value)}`", fields=(path,)
    )


# Merging


class _Merged:
    """The layers merged so far: values, their origins, and warnings."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[str, str] = {}
        self.warnings: list[str] = []

    def add_file_in(self, folder: Path) -> None:
        files = _files_in(folder)
        if not files:
            return
        path, *others = files
        self.warnings += [f"`{other}` is ignored because `{path}` exists" for other in others]
        self.add(_parse(path), str(path))

    def add(self, given: Mapping[str, Any], origin: str) -> None:
        def warn(key: str) -> None:
            self.warnings.append(f"unknown key `{key}` in {origin}")

        try:
            known = cast("dict[str, Any]", _checked(given, _SCHEMA, "", warn))
        except ValidationError as error:
            raise ValidationError(f"{error} in {origin}", fields=error.fields) from error
        self._merge(self.values, known, "", lambda _: origin)

    def add_profile(self, name: str) -> None:
        profiles: dict[str, Any] = self.values.get("profiles", {})
        if name not in profiles:
            raise AmuxError(
                f"profile `{name}` is not defined",
                code=ErrorCode.PROFILE_NOT_FOUND,
                hint=f"defined profiles: {', '.join(profiles) or 'none'}",
            )
        prefix = f"profiles.{name}."
        self._merge(self.values, profiles[name], "", lambda key: self.origins[prefix + key])

    def _merge(
        self,
        below: dict[str, Any],
        above: Mapping[str, Any],
        path: str,
        origin_of: Callable[[str], str],
    ) -> None:
        for key, value in above.items():
            where = f"{path}.{key}" if path else key
            if isinstance(value, Mapping):
                inner = below.setdefault(key, {})
                self._merge(inner, cast("Mapping[str, Any]", value), where, origin_of)
            else:
                below[key] = value
                self.origins[where] = origin_of(where)


def _build(merged: _Merged, host: Host) -> Config:
    values = merged.values
    agents: dict[str, dict[str, list[str]]] = values.get("agents", {})
    plain = {key: values[key] for key in ("default_agent", "timezone", "color") if key in values}
    return Config(
        **plain,
        agents={
            name: AgentSettings(roots=tuple(host.expand(root) for root in agent.get("roots", ())))
            for name, agent in agents.items()
        },
        prices=_build_prices(values),
        profiles=tuple(values.get("profiles", ())),
        warnings=tuple(merged.warnings),
        origins=merged.origins,
    )


def _build_prices(values: Mapping[str, Any]) -> dict[str, PriceSettings]:
    prices: dict[str, dict[str, float]] = values.get("prices", {})
    for model, price in prices.items():
        for needed in ("input", "output"):
            if needed not in price:
                path = f"prices.{model}.{needed}"
                raise ValidationError(f"`{path}` is missing", fields=(path,))
    return {model: PriceSettings(**price) for model, price in prices.items()}
