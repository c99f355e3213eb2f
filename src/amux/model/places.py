"""Working directories as texts: one spelling to show, one to compare."""

from __future__ import annotations


def forward_slashes(path: str) -> str:
    r"""`C:\a\b` to `C:/a/b`; a POSIX path, where a backslash is an ordinary character, is kept."""
    windows = path[1:3] in (":\\", ":/") or path.startswith("\\\\")
    return path.replace("\\", "/") if windows else path


def plain_place(path: str) -> str:
    """A directory in the one spelling that is compared."""
    return forward_slashes(path).rstrip("/") or "/"
