"""Masks names that may reveal something about a person, a project or a conversation.

A name of a field or of a record type is shown unless it looks like data: an id, a path, an address,
a sentence, also one whose words are joined (`fix-the-login-page`). A path of a file is shown only
as far as its parts consist of words that formats use; any other part is replaced, since it may be
the name of a project.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import PurePosixPath
from typing import Final

NAME: Final = "<name>"
ID: Final = "<id>"

_LONGEST: Final = 60
_MOST_DIGITS: Final = 3
_MOST_PARTS: Final = 4
_MOST_WORDS: Final = 7
_MOST_JOINTS: Final = {"-": 2, "_": 4}  # more of them join the words of a sentence
_FILE: Final = re.compile(
    r"\.(?:md|txt|py|js|jsx|mjs|ts|tsx|json|jsonl|html?|css|go|rs|java|kt|swift|cpp|cs|rb|php|sh|sql"
    r"|ya?ml|toml|xml|csv|pdf|png|jpe?g|svg|docx?|xlsx?|zip|com|org|net)\Z",
    re.IGNORECASE,
)
_IDENTIFIER: Final = re.compile(r"[$_]?[A-Za-z][A-Za-z0-9_.:$-]*")
_HEX: Final = re.compile(r"(?=[0-9a-f]*[0-9])[0-9a-f]{6,}", re.IGNORECASE)
_VERSION: Final = re.compile(
    r"v?\d{1,10}(?:\.\d{1,10}){0,3}(?:-(?:alpha|beta|rc|dev|preview|nightly)(?:\.?\d{1,10}){0,2})?"
)
_ID: Final = re.compile(
    r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
    r"|\d[\dTZ:_.-]*\d|(?=[0-9a-f]*\d)[0-9a-f]{6,}|\d+",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_ODD: Final = re.compile(r"[^A-Za-z0-9<>._@~+=-]")
_EXTENSION: Final = re.compile(r"\.[a-z]{1,8}[0-9]{0,2}(?:-(?:wal|shm|journal))?\Z")
_HOLD_NAMED_FOLDERS: Final = frozenset(
    {"agents", "chats", "message", "part", "profiles", "project", "projects", "session"}
    | {"sessions", "tmp", "workspaceStorage", "workspaces"}
)
"""Folders whose subfolders have the names of projects, profiles or sessions."""

_BUCKETS: Final = (
    (0, "empty"),
    (1 << 10, "up to 1 KB"),
    (10 << 10, "up to 10 KB"),
    (100 << 10, "up to 100 KB"),
    (1 << 20, "up to 1 MB"),
    (10 << 20, "up to 10 MB"),
    (100 << 20, "up to 100 MB"),
)
_LARGER: Final = "over 100 MB"


def masked_name(name: str, groups: Collection[str] = ()) -> str:
    """Return the name of a field or of a record type, or `<name>` if it looks like data.

    The parts of a nested name are separated by dots. The first part of a type that has a slash must
    be one of `groups`, the first parts of known types.
    """
    group, slash, rest = name.partition("/")
    parts = (rest if slash and group in groups else name).split(".")
    is_name = len(parts) <= _MOST_PARTS and _FILE.search(name) is None
    return name if is_name and not any(map(_is_data, parts)) else NAME


def _is_data(name: str) -> bool:
    is_identifier = len(name) <= _LONGEST and _IDENTIFIER.fullmatch(name) is not None
    is_sentence = len(_WORD.findall(name)) > _MOST_WORDS or any(
        name.count(joint) > most for joint, most in _MOST_JOINTS.items()
    )
    digits = sum(character.isdigit() for character in name)
    has_id = digits > _MOST_DIGITS or _HEX.search(name) is not None
    return not is_identifier or is_sentence or has_id


def masked_version(version: str) -> str:
    """Return a version number, or `<version>` if the text is not one."""
    return version if _VERSION.fullmatch(version) else "<version>"


def masked_path(relative: str, vocabulary: Collection[str], *, root: str = "") -> str:
    """Return a path below a folder named `root` as a pattern.

    Only words of the vocabulary remain, and the ending of the file.
    """
    *folders, name = PurePosixPath(relative).parts
    shown: list[str] = []
    above = root
    for folder in folders:
        is_named = above in _HOLD_NAMED_FOLDERS
        shown.append(NAME if is_named else _masked_part(folder, vocabulary))
        above = folder
    extension = _EXTENSION.search(name[1:])
    ending = "" if extension is None else extension[0]
    return "/".join((*shown, _masked_part(name.removesuffix(ending), vocabulary) + ending))


def _masked_part(part: str, vocabulary: Collection[str]) -> str:
    """Return a part of a path with its ids replaced; `<name>` if other words remain."""
    pattern = _ID.sub(ID, part)
    words = _WORD.findall(pattern.replace(ID, ""))
    is_known = all(word.lower() in vocabulary for word in words)
    return pattern if is_known and not _ODD.search(pattern) else NAME


def words_of(name: str) -> frozenset[str]:
    """Return the words of a name, in lower case."""
    return frozenset(word.lower() for word in _WORD.findall(name) if len(word) > 1)


def size_bucket(size: int) -> str:
    """Return the order of magnitude of a size in bytes."""
    return next((label for limit, label in _BUCKETS if size <= limit), _LARGER)


def in_order_of_size(buckets: Collection[str]) -> tuple[str, ...]:
    """Return some orders of magnitude, the smallest first."""
    return tuple(label for label in (*(each for _, each in _BUCKETS), _LARGER) if label in buckets)
