"""The machine as an argument: home, environment, platform, clock.

Built once in a face or in `create_client()` and passed down; nothing below looks at the process.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

TYPE_CHECKING = False  # nothing but a follower waits: `threading` is not for everyone to import
if TYPE_CHECKING:
    from threading import Event

PROJECT_FOLDER = ".agent-mux"
"""Where a project keeps settings and runs of its own."""


def _now() -> datetime:
    return datetime.now(UTC)


class Clock:
    """Time that passes; the time of day is the host's `now`."""

    def elapsed(self) -> float:
        """Seconds since some moment in the past."""
        return time.monotonic()

    def wait(self, event: Event, seconds: float) -> None:
        """Let time pass, less of it when the event is set meanwhile."""
        event.wait(seconds)


class Host:
    """Where we are: paths are resolved from here and from nowhere else. Touches no disk."""

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
        """The real machine: HOME (USERPROFILE on Windows) and the process environment."""
        env = dict(os.environ)  # noqa: TID251 - the one place where the process is asked
        variable = "USERPROFILE" if sys.platform == "win32" else "HOME"
        home = env.get(variable) or os.path.expanduser("~")  # noqa: PTH111 - no HOME: ask the user database
        return cls(Path(home), env=env)

    def path_from(self, variable: str) -> Path | None:
        """The absolute path in an environment variable, `~` expanded; None when unset or blank."""
        text = self.env.get(variable, "").strip()
        return self.expand(text) if text else None

    def expand(self, text: str) -> Path:
        """Make a path given by a person absolute: `~` is this host's home."""
        if text == "~" or text.startswith(("~/", "~\\")):
            return self.home / text[2:]
        path = Path(text)
        return path if path.is_absolute() else self.home / path

    def config_dir(self) -> Path:
        """Configuration and run index: AGENT_MUX_CONFIG_DIR or ~/.agent-mux."""
        return self.path_from("AGENT_MUX_CONFIG_DIR") or self.home / ".agent-mux"

    def project_folders(self, start: Path | None) -> Iterator[Path]:
        """Where a project may keep its settings, nearest first.

        AGENT_MUX_PROJECT_DIR names the one folder; else `.agent-mux` in `start` and above. The
        user's own folder is no project's.
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
        """XDG_DATA_HOME, else the platform's place for user data."""
        return self.path_from("XDG_DATA_HOME") or self._platform_dir(
            linux=".local/share", mac="Library/Application Support", windows="LOCALAPPDATA"
        )

    def xdg_config_home(self) -> Path:
        """XDG_CONFIG_HOME, else the platform's place for settings."""
        return self.path_from("XDG_CONFIG_HOME") or self._platform_dir(
            linux=".config", mac="Library/Application Support", windows="APPDATA"
        )

    def data_dir(self) -> Path:
        """What people gave amux to keep: AMUX_DATA_DIR, else `amux` below the user's data."""
        return self.path_from("AMUX_DATA_DIR") or self.xdg_data_home() / "amux"

    def cache_dir(self) -> Path:
        """AMUX_CACHE_DIR, else `amux` below the platform's cache directory."""
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
    """What to say of a path that the operating system would not let us read, and of which one."""
    reason = error.strerror or str(error)
    if isinstance(error, PermissionError):
        path = unreadable_parent(path)
        reason += "; your user needs the right to read it"
    return f"cannot be read ({reason})", path


def unreadable_parent(path: Path) -> Path:
    """What is closed: the path itself, or the folder above it that lets nobody through."""
    for door in (path, *path.parents):
        try:
            door.lstat()
        except PermissionError:
            continue
        except OSError:
            break
        return door
    return path
