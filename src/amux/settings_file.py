"""Settings files: YAML, JSON or TOML, read whole and written atomically under a lock.

A parser is imported only for a file of its kind. A file that cannot be read or parsed raises
ConfigError with the file and the line.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from amux.durable import PRIVATE_FILE, make_private_folder, sync, sync_folder, try_lock
from amux.errors import AmuxError, ConfigError, ErrorCode, ValidationError

FILE_NAMES: Final = ("config.yaml", "config.yml", "config.json", "config.toml")
LOCK_SECONDS: Final = 5.0
"""How long a writer waits for another one."""

_LOCK_PAUSE: Final = 0.05
_JSON_BYTE: Final = re.compile(r"\(byte (\d+)\)")


def files_in(folder: Path) -> list[Path]:
    """Return the settings files of a folder, the one that counts first."""
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


def parse_file(path: Path) -> dict[str, Any]:
    """Return the settings in a file.

    Raises:
        ConfigError: The file cannot be read or parsed; the message names the line.
    """
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


# Writing


def update_file(
    path: Path, change: Callable[[dict[str, Any]], Mapping[str, Any]], *, wait: float = LOCK_SECONDS
) -> None:
    """Replace the settings in a file by those that `change` makes of them.

    Readers see the old file or the new one. Comments of a YAML file are lost.

    Raises:
        ConfigError: The file is broken; it is left as it is.
        ValidationError: The file is TOML, which amux reads and does not write.
        AmuxError: Another process writes for longer than `wait` (CONFIG_LOCK_ERROR).
    """
    if path.suffix == ".toml":
        raise ValidationError(f"`{path}` is TOML, which amux cannot write", hint="edit the file")
    created = make_private_folder(path.parent)
    with _locked(path, wait):
        before = parse_file(path) if path.exists() else {}
        _replace(path, _encoded(change(before), path))
    for folder in created:
        sync_folder(folder)


@contextmanager
def _locked(path: Path, wait: float) -> Generator[None]:
    """Hold the lock of a settings file, which is a file beside it: the settings are replaced."""
    flags = os.O_RDWR | os.O_CREAT
    descriptor = os.open(path.with_name(f".{path.name}.lock"), flags, PRIVATE_FILE)
    try:
        end = time.monotonic() + wait
        while not try_lock(descriptor):
            if time.monotonic() >= end:
                raise AmuxError(
                    f"`{path}` is being written by another process",
                    code=ErrorCode.CONFIG_LOCK_ERROR,
                    recoverable=True,
                    hint="try again",
                )
            time.sleep(_LOCK_PAUSE)
        yield
    finally:
        os.close(descriptor)


def _encoded(values: Mapping[str, Any], path: Path) -> bytes:
    if path.suffix == ".json":
        return msgspec.json.format(msgspec.json.encode(values), indent=2) + b"\n"
    import yaml

    return yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True, encoding="utf-8")


def _replace(path: Path, content: bytes) -> None:
    import tempfile

    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            sync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
    sync_folder(path.parent)
