"""The files that a tool was given: paths in its input, in its commands and in its patches.

A value whose key speaks of a file or a folder is a path. Elsewhere a word is one that has a slash
in it or ends like a file name. What is written into a file is not looked at: a text that talks
about a file is no use of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from amux.model.words import fold

_PATH_KEY: Final = re.compile(r"(?:path|file|dir|folder|notebook|cwd)(?:s|name|names|ectory)?$")
_CONTENT_KEYS: Final = frozenset(
    {"content", "contents", "description", "prompt", "query", "text", "thought", "todos"}
)
_WRITTEN: Final = re.compile(r"^(?:new|old|file|insert)_?(?:str|string|text|content)s?$")
_PATCHED: Final = re.compile(
    r"^(?:\*\*\* (?:Add|Update|Delete) File: |\*\*\* Move to: |\+\+\+ (?:b/)?|--- (?:a/)?)(.+)$",
    re.MULTILINE,
)
_WORD: Final = re.compile(r"""[^\s"'`|;&<>()=,\[\]{}]+""")
_FILE_NAME: Final = re.compile(r"\w\.[A-Za-z]\w{0,7}$")
_READ: Final = 1 << 16
"""Characters of a command that are looked at: behind them is what it writes."""


def normal_path(text: str) -> str:
    """The form in which paths are compared: folded, with forward slashes."""
    return fold(text).replace("\\", "/").strip()


def mentioned_paths(value: Any, key: str = "") -> Iterator[str]:
    """Every path in the input of a tool, as it stands there."""
    match value:
        case str():
            yield from _paths_in(value, key)
        case dict():
            for name, inner in value.items():  # pyright: ignore[reportUnknownVariableType] - foreign JSON
                yield from mentioned_paths(inner, str(name))  # pyright: ignore[reportUnknownArgumentType]
        case list() | tuple():
            for inner in value:  # pyright: ignore[reportUnknownVariableType] - foreign JSON
                yield from mentioned_paths(inner, key)
        case _:
            return


def _paths_in(text: str, key: str) -> Iterator[str]:
    name = key.lower()
    if _PATH_KEY.search(name):
        yield text
    elif name not in _CONTENT_KEYS and not _WRITTEN.match(name):
        patched = _PATCHED.findall(text)
        yield from patched or filter(_is_path, _WORD.findall(text[:_READ]))


def _is_path(word: str) -> bool:
    if "://" in word:
        return False
    return "/" in word or "\\" in word or _FILE_NAME.search(word) is not None
