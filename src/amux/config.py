"""Settings: the layers they come from, their types, and which layer set each value.

    call > client > profile > project .agent-mux/config.* > user ~/.agent-mux/config.* > defaults

Mappings are merged deeply, lists are replaced, and a null value is ignored. A missing file sets
nothing. Settings are never dropped silently: a file that cannot be parsed raises ConfigError with
the line, an unreadable directory raises ConfigError, and a value of the wrong type raises
ValidationError with its dotted path. Unknown keys are collected as warnings. YAML, JSON and TOML
are accepted; a parser is imported only if a file of that format exists. Times are in seconds.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

import msgspec

from amux.errors import AmuxError, ErrorCode, ValidationError
from amux.host import Host
from amux.settings_file import files_in, parse_file, update_file

Color = Literal["auto", "always", "never"]
StrategyName = Literal["always", "resume_or_new", "always_new", "manual"]
_HIGHEST_PRICE = 1_000_000.0
_LONGEST_TIME = 10_000_000.0
_PLAIN_KEYS = ("default_agent", "timezone", "color", "index_in_background")
_OWN_KEYS = frozenset({"claude", "droid", "opencode"})  # agents with settings of their own


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


class ManagedStorageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where managed sessions are stored: a directory, and the name of the database in it."""

    base_path: str = "~/.local/share/multi-agent"
    sqlite_db: str = "sessions.db"


class ManagedAgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the managed sessions of any agent.

    `timeout` is the longest silence of the agent before it counts as hanging. `path` is the
    directory of its JSON files, relative to `storage.base_path`; None means the agent's name.
    """

    resume_strategy: StrategyName = "resume_or_new"
    timeout: float = 300.0
    path: str | None = None


class ManagedClaudeSettings(ManagedAgentSettings, frozen=True, kw_only=True):
    """Settings of managed sessions of Claude.

    `session_file` lists the ids of its sessions: a name in `storage.base_path`, an absolute path,
    or `./name` in the working directory of the session. `api` selects the SDK or the command.
    """

    session_file: str = "claude_sessions.json"
    api: Literal["auto", "sdk", "cli"] = "auto"


class ManagedDroidSettings(ManagedAgentSettings, frozen=True, kw_only=True):
    """Settings of managed sessions of Droid. With `session_tracking` its prompts are stored."""

    resume_strategy: StrategyName = "manual"
    session_tracking: bool = True
    prompt_required_for_resume: bool = True


class OpencodeStorageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The storage settings of OpenCode: saving, length of the history, days until a cleanup."""

    auto_save: bool = True
    save_interval: float = 30.0
    history_limit: int = 1000
    cleanup_after: float = 30.0


class ManagedOpencodeSettings(ManagedAgentSettings, frozen=True, kw_only=True):
    """Settings of managed sessions of OpenCode, by its server or by its command."""

    server_mode: bool = True
    server_url: str = "http://localhost:4096"
    auto_save_interval: float = 30.0
    session: OpencodeStorageSettings = OpencodeStorageSettings()


class ManagedAgentsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of managed sessions by agent; `others` has those without keys of their own."""

    claude: ManagedClaudeSettings = ManagedClaudeSettings()
    droid: ManagedDroidSettings = ManagedDroidSettings()
    opencode: ManagedOpencodeSettings = ManagedOpencodeSettings()
    others: dict[str, ManagedAgentSettings] = {}

    def of(self, agent: str) -> ManagedAgentSettings:
        """Return the settings of an agent that all agents have."""
        known: dict[str, ManagedAgentSettings] = {
            "claude": self.claude,
            "droid": self.droid,
            "opencode": self.opencode,
        }
        return known.get(agent) or self.others.get(agent) or ManagedAgentSettings()


class ManagedGlobalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and saving of managed sessions. Only ended sessions are put away, never deleted,
    unless `cleanup_action` says so. `archive_on_end` archives a session when it is stopped.
    """

    max_sessions_per_agent: int = 10
    cleanup_after_days: float = 30.0
    cleanup_action: Literal["archive", "delete"] = "archive"
    auto_save: bool = True
    save_interval: float = 60.0
    archive_on_end: bool = False


class SessionManagementSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of managed sessions."""

    storage: ManagedStorageSettings = ManagedStorageSettings()
    agents: ManagedAgentsSettings = ManagedAgentsSettings()
    global_: ManagedGlobalSettings = msgspec.field(
        name="global", default_factory=ManagedGlobalSettings
    )


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The merged settings. `timezone` is the IANA name of the zone by which days are grouped.

    `index_in_background` allows the command line to start the background indexer.
    """

    default_agent: str | None = None
    timezone: str = "UTC"
    color: Color = "auto"
    index_in_background: bool = True
    agents: dict[str, AgentSettings] = {}
    prices: dict[str, PriceSettings] = {}
    session_management: SessionManagementSettings = SessionManagementSettings()
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
        project = next((f for f in host.project_folders(project_dir) if files_in(f)), None)
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


def write_settings(path: Path, changes: Mapping[str, Any]) -> None:
    """Merge settings into a file, atomically and under its lock; a null value removes a key.

    Raises:
        ValidationError: A value has the wrong type, a key is unknown, or the file is TOML.
        ConfigError: The file is broken; it is left as it is.
        AmuxError: Another process writes the file for five seconds (CONFIG_LOCK_ERROR).
    """
    unknown: list[str] = []
    _checked(changes, _SCHEMA, "", unknown.append)
    if unknown:
        raise ValidationError(f"`{unknown[0]}` is not a setting", fields=unknown)
    update_file(path, lambda before: _with_changes(before, changes))


def _with_changes(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(before)
    for key, value in changes.items():
        below = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            known: Mapping[str, Any] = {}
            if isinstance(below, Mapping):
                known = cast("Mapping[str, Any]", below)
            merged[key] = _with_changes(known, cast("Mapping[str, Any]", value))
        else:
            merged[key] = value
    return merged


def read_prices(path: Path) -> dict[str, PriceSettings]:
    """Read a price file: `{model: {input, output, ...}}`, optionally below the key `prices`."""
    data = parse_file(path)
    merged = _Merged()
    merged.add(data if "prices" in data else {"prices": data}, str(path))
    return _build_prices(merged.values)


# Types of settings


class _ValueType(NamedTuple):
    expected: str
    accepts: Callable[[object], bool]


_Schema: TypeAlias = "Mapping[str, _Schema | _ValueType]"
_ANY = "*"


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_file_name(value: object) -> bool:
    return isinstance(value, str) and _is_text(value) and not {"/", "\\"} & {*value}


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


def _is_switch(value: object) -> bool:
    return isinstance(value, bool)


def _is_whole_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_positive(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 < value <= _LONGEST_TIME
    )


def _is_server(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("http://", "https://"))


def _word_of(*words: str) -> _ValueType:
    *others, last = (f"`{word}`" for word in words)

    def is_word(value: object) -> bool:
        return value in words

    return _ValueType(f"{', '.join(others)} or {last}", is_word)


_PRICE = _ValueType("a number of USD per million tokens", _is_price)
_SWITCH = _ValueType("`true` or `false`", _is_switch)
_SECONDS = _ValueType("a positive number of seconds", _is_positive)
_DAYS = _ValueType("a positive number of days", _is_positive)
_NUMBER = _ValueType("a positive whole number", _is_whole_number)
_PATH = _ValueType("a path", _is_text)
_MANAGED_AGENT: _Schema = {
    "resume_strategy": _word_of(*get_args(StrategyName)),
    "timeout": _SECONDS,
    "path": _PATH,
}
_SESSION_MANAGEMENT: _Schema = {
    "storage": {"base_path": _PATH, "sqlite_db": _ValueType("a file name", _is_file_name)},
    "agents": {
        "claude": {
            **_MANAGED_AGENT,
            "session_file": _PATH,
            "api": _word_of("auto", "sdk", "cli"),
        },
        "droid": {
            **_MANAGED_AGENT,
            "session_tracking": _SWITCH,
            "prompt_required_for_resume": _SWITCH,
        },
        "opencode": {
            **_MANAGED_AGENT,
            "server_mode": _SWITCH,
            "server_url": _ValueType("an address such as `http://localhost:4096`", _is_server),
            "auto_save_interval": _SECONDS,
            "session": {
                "auto_save": _SWITCH,
                "save_interval": _SECONDS,
                "history_limit": _NUMBER,
                "cleanup_after": _DAYS,
            },
        },
        _ANY: _MANAGED_AGENT,
    },
    "global": {
        "max_sessions_per_agent": _NUMBER,
        "cleanup_after_days": _DAYS,
        "cleanup_action": _word_of("archive", "delete"),
        "auto_save": _SWITCH,
        "save_interval": _SECONDS,
        "archive_on_end": _SWITCH,
    },
}
_SETTINGS: dict[str, _Schema | _ValueType] = {
    "default_agent": _ValueType("the name of an agent", _is_text),
    "timezone": _ValueType("a time zone such as `Europe/Berlin`", _is_timezone),
    "color": _ValueType("`auto`, `always` or `never`", _is_color),
    "index_in_background": _SWITCH,
    "agents": {_ANY: {"roots": _ValueType("a list of directories", _is_list_of_texts)}},
    "prices": {
        _ANY: dict.fromkeys(
            ("input", "output", "cache_read", "cache_write", "cache_write_1h"), _PRICE
        )
    },
    "session_management": _SESSION_MANAGEMENT,
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
        files = files_in(folder)
        if not files:
            return
        path, *others = files
        self.warnings += [f"`{other}` is ignored because `{path}` exists" for other in others]
        self.add(parse_file(path), str(path))

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
    plain = {key: values[key] for key in _PLAIN_KEYS if key in values}
    return Config(
        **plain,
        agents={
            name: AgentSettings(roots=tuple(host.expand(root) for root in agent.get("roots", ())))
            for name, agent in agents.items()
        },
        prices=_build_prices(values),
        session_management=_build_session_management(merged),
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


def _build_session_management(merged: _Merged) -> SessionManagementSettings:
    """Return the settings of managed sessions; agents without keys of their own are `others`."""
    given: dict[str, Any] = dict(merged.values.get("session_management", {}))
    agents: dict[str, Any] = given.get("agents", {})
    named = {name: agents[name] for name in agents if name in _OWN_KEYS}
    others = {name: agents[name] for name in agents if name not in named}
    for key, origin in list(merged.origins.items()):
        prefix, found, rest = key.partition("session_management.agents.")
        if found and not prefix and rest.partition(".")[0] in others:
            merged.origins[f"{found}others.{rest}"] = origin
    given["agents"] = {**named, "others": others}
    return msgspec.convert(given, SessionManagementSettings)
