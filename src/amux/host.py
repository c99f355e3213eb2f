"""`Host`: the home directory, environment, platform and clock, passed as an argument.

A host is built once, by the command line or by `create_client()`, and passed down; no code below
reads the process environment.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

TYPE_CHECKING = False  # only following waits: other commands do not import `threading`
if TYPE_CHECKING:
    from threading import Event

PROJECT_FOLDER = ".agent-mux"
"""The directory of a project that holds its settings and run index."""


def _now() -> datetime:
    return datetime.now(UTC)


class Clock:
    """Measures elapsed time and waits. The time of day is `Host.now`."""

    def elapsed(self) -> float:
        """Return the seconds since an arbitrary moment in the past."""
        return time.monotonic()

    def wait(self, event: Event, seconds: float) -> None:
        """Wait for `seconds`, or until the event is set."""
        event.wait(seconds)


class Host:
    """The machine amux works on. All paths are resolved from it; no method accesses the disk."""

    __slots__ = ("clock", "env", "home", "now", "platform")

    def __init__(
        self,
        home: Path,
        *,
        env: Mapping[str, str] | None = None,
        platform: str = sys.platform,
        now: Callable[[], datetime] = _now,
        clock: Clock | None = None,
    ) -> None:
        self.home = home
        self.env: Mapping[str, str] = {} if env is None else env
        self.platform = platform
        self.now = now
        self.clock = clock or Clock()

    @classmethod
    def from_process(cls) -> Host:
        """Return this machine: HOME (USERPROFILE on Windows) and the process environment."""
        env = dict(os.environ)  # noqa: TID251 - the only access to the process environment
        variable = "USERPROFILE" if sys.platform == "win32" else "HOME"
        home = env.get(variable) or os.path.expanduser("~")  # noqa: PTH111 - no HOME: ask the user database
        return cls(Path(home), env=env)

    def path_from(self, variable: str) -> Path | None:
        """Return the absolute path in an environment variable; None if it is unset or blank."""
        text = self.env.get(variable, "").strip()
        return self.expand(text) if text else None

    def expand(self, text: str) -> Path:
        """Return a user-provided path as an absolute one: `~` is this host's home."""
        if text == "~" or text.startswith(("~/", "~\\")):
            return self.home / text[2:]
        path = Path(text)
        return path if path.is_absolute() else self.home / path

    def config_dir(self) -> Path:
        """Return the directory of the settings: AGENT_MUX_CONFIG_DIR or ~/.agent-mux."""
        return self.path_from("AGENT_MUX_CONFIG_DIR") or self.home / ".agent-mux"

    def project_folders(self, start: Path | None) -> Iterator[Path]:
        """Yield the directories that may hold project settings, the nearest first.

        If AGENT_MUX_PROJECT_DIR is set, it is the only one; otherwise `.agent-mux` in `start` and
        in its parents. The user's own configuration directory is left out.
        """
        given = self.path_from("AGENT_MUX_PROJECT_DIR")
        if given is not None:
            yield given
            return
        if start is None:
            return
        for folder in (start, *start.parents):
            candidate = folder / PROJECT_FOLDER
            if candidate != self.config_dir():
                yield candidate

    def xdg_data_home(self) -> Path:
        """Return XDG_DATA_HOME, or the platform's directory for user data if it is unset."""
        return self.path_from("XDG_DATA_HOME") or self._platform_dir(
            linux=".local/share", mac="Library/Application Support", windows="LOCALAPPDATA"
        )

    def xdg_config_home(self) -> Path:
        """Return XDG_CONFIG_HOME, or the platform's directory for settings if it is unset."""
        return self.path_from("XDG_CONFIG_HOME") or self._platform_dir(
            linux=".config", mac="Library/Application Support", windows="APPDATA"
        )

    def data_dir(self) -> Path:
        """Return the directory of our own data: AMUX_DATA_DIR, or `amux` in the user's data."""
        return self.path_from("AMUX_DATA_DIR") or self.xdg_data_home() / "amux"

    def cache_dir(self) -> Path:
        """Return AMUX_CACHE_DIR, or `amux` in the platform's cache directory if it is unset."""
        own = self.path_from("AMUX_CACHE_DIR")
        if own is not None:
            return own
        base = self.path_from("XDG_CACHE_HOME") or self._platform_dir(
            linux=".cache", mac="Library/Caches", windows="LOCALAPPDATA"
        )
        return base / "amux"

    def _platform_dir(self, *, linux: str, mac: str, windows: str) -> Path:
        if self.platform == "win32":
            return self.path_from(windows) or self.home / "AppData" / (
                "Roaming" if windows == "APPDATA" else "Local"
            )
        return self.home / (mac if self.platform == "darwin" else linux)


def os_error_message(path: Path, error: OSError) -> tuple[str, Path]:
    """Return a message for a failed read, and the path it is about: `path` or a parent of it."""
    reason = error.strerror or str(error)
    if isinstance(error, PermissionError):
        path = unreadable_parent(path)
        reason += "; your user needs read permission"
    return f"cannot be read ({reason})", path


def unreadable_parent(path: Path) -> Path:
    """Return the nearest parent that denies access to a path, or the path itself if none does."""
    for candidate in (path, *path.parents):
        try:
            candidate.lstat()
        except PermissionError:
            continue
        except OSError:
            break
        return candidate
    return path
