"""Command lines that need no parser: a command and optionally `--json`.

Importing argparse and building a parser takes longer than a fast list. The result of parsing these
lines is written down here; a test compares it with the parser's.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

GLOBAL_DEFAULTS: dict[str, object] = {
    "agent": None,
    "model": None,
    "json": False,
    "home": None,
    "demo": False,
    "config_dir": None,
    "project_dir": None,
    "profile": None,
    "color": None,
    "quiet": False,
    "debug": False,
    "completions": None,
}

LIST_LIMIT = 100

_LIST_DEFAULTS: dict[str, object] = {
    "module": "list",
    "agent_word": None,
    "since": None,
    "until": None,
    "tags": None,
    "limit": LIST_LIMIT,
    "sort": "date",
    "direction": "desc",
    "starred": False,
    "cwd": None,
    "children": False,
    "archived": False,
    "all": False,
}

PLAIN_LINES = {"list": _LIST_DEFAULTS, "sessions list": _LIST_DEFAULTS}


def plain_arguments(words: Sequence[str]) -> SimpleNamespace | None:
    """Return the arguments of a command line listed here; None for any other line."""
    wants_json = bool(words) and words[-1] == "--json"
    found = PLAIN_LINES.get(" ".join(words[:-1] if wants_json else words))
    if found is None:
        return None
    return SimpleNamespace(**{**GLOBAL_DEFAULTS, **found, "json": wants_json})
