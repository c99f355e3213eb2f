"""What results rest on besides the sources: versions, settings, runs, prices.

Asked by `stat` alone. Installing or upgrading a package (another catalogue of prices, a plugin)
changes the folder it is installed into.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from amux._version import __version__
from amux.host import Host

TYPE_CHECKING = False  # `typing` would be a tenth of a quick list
if TYPE_CHECKING:
    from typing import Final

_WATCHED: Final = (
    "config.yaml", "config.yml", "config.toml", "config.json", "prices.json", "run-index.jsonl",
)  # fmt: skip

_PACKAGES: Final = ("site-packages", "dist-packages")


def basis_of(host: Host, project_dir: Path | None) -> bytes:
    """A mark that changes when results must be made anew."""
    lines = [__version__, sys.version, str(host.home)]
    for folder in (host.config_dir(), *host.project_folders(project_dir)):
        for name in _WATCHED:
            lines += _state(f"{folder}{os.sep}{name}")
    return _mark([*lines, *_packages()])


def packages_mark() -> str:
    """A mark that changes when anything is installed, upgraded or removed."""
    return _mark([__version__, sys.version, *_packages()]).hex()


def _packages() -> Iterator[str]:
    for path in sys.path:
        if path.endswith(_PACKAGES):
            yield from _state(path)


def _mark(lines: list[str]) -> bytes:
    from _blake2 import blake2b

    return blake2b("\n".join(lines).encode("utf-8", "surrogateescape"), digest_size=16).digest()


def has_settings(host: Host, project_dir: Path | None) -> bool:
    """Whether there is, or may be, any file of a person's own making."""
    return any(
        _may_exist(f"{folder}{os.sep}{name}")
        for folder in (host.config_dir(), *host.project_folders(project_dir))
        for name in _WATCHED
    )


def _may_exist(path: str) -> bool:
    try:
        os.stat(path)  # noqa: PTH116 - pathlib would be most of the time
    except OSError as error:
        return isinstance(error, PermissionError)  # whoever reads the settings will say so
    return True


def _state(path: str) -> list[str]:
    """How a file is now; nothing for one that is not there."""
    try:
        found = os.stat(path)  # noqa: PTH116 - pathlib would be most of the time
    except OSError:
        return []
    return [path, str(found.st_size), str(found.st_mtime_ns)]
