"""Spellings of working directories: one for display, one for comparison."""

from __future__ import annotations


def forward_slashes(path: str) -> str:
    r"""Convert `C:\a\b` to `C:/a/b`; POSIX paths, which may contain backslashes, stay unchanged."""
    windows = path[1:3] in (":\\", ":/") or path.startswith("\\\\")
    return path.replace("\\", "/") if windows else path


def plain_directory(path: str) -> str:
    """Return a directory in the spelling used for comparison."""
    return forward_slashes(path).rstrip("/") or "/"
