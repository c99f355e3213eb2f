"""Recognises tool calls that edit files, and returns their changes as lines of a diff.

Every agent has its own names for the parts of an edit. The parts are recognised by the names of
their fields, whatever the tool is called: a replaced and a new text, the content of a file, or a
patch, either unified or as `apply_patch` takes it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, cast

Sign = Literal["+", "-", " ", "@"]
"""An added, a removed, an unchanged line; or a line that says where the next ones belong."""

Change = tuple[Sign, str]

PATHS: Final = (
    *("file_path", "filePath", "path", "target_file", "notebook_path", "filename", "file"),
)
_OLD: Final = ("old_string", "oldString", "old_str", "oldText", "old_text")
_NEW: Final = (
    *("new_string", "newString", "new_str", "newText", "new_text", "insert_text", "new_source"),
)
_CONTENT: Final = ("content", "contents", "file_text", "fileText", "code_edit")
_PATCH: Final = ("patch", "patchText", "patch_text", "input", "diff")
_LISTS: Final = ("edits", "changes")
_EDITS: Final = re.compile(r"write|create|edit|replace|patch|insert|save", re.IGNORECASE)
_OPENING: Final = re.compile(r"\*\*\* Begin Patch|(?:diff --git |--- ).*\n|@@")
_FRAME: Final = ("*** Begin Patch", "*** End Patch")
_FILE: Final = re.compile(r"\*\*\* (?:Add|Update|Delete) File: (.*)|\+\+\+ (?:b/)?(\S+)")
_MOST_COMPARED: Final = 400  # lines on one side: comparing takes quadratic time
_CONTEXT: Final = 2


class FileEdits(NamedTuple):
    """The edits of one call: the files, the changes, and the fields of the input not shown so."""

    paths: tuple[str, ...]
    parts: tuple[_Part, ...]
    rest: Mapping[str, Any]

    def changes(self, *, full: bool = False) -> Iterator[Change]:
        """Yield the lines of the diff; unless `full`, unchanged lines far from a change are cut."""
        for number, part in enumerate(self.parts):
            if number:
                yield "@", "…"
            yield from part.changes(None if full else _CONTEXT)

    def counts(self) -> tuple[int, int]:
        """Return the numbers of added and removed lines."""
        found = [part.counts() for part in self.parts]
        return sum(added for added, _ in found), sum(removed for _, removed in found)


class _Part(NamedTuple):
    """A replaced and a new text; or a patch."""

    old: str = ""
    new: str = ""
    patch: str | None = None

    def changes(self, context: int | None) -> Iterator[Change]:
        if self.patch is not None:
            return _patch_lines(self.patch)
        if not self.old:
            return _signed("+", _lines(self.new))
        return _compared([*_lines(self.old)], [*_lines(self.new)], context)

    def counts(self) -> tuple[int, int]:
        signs = Counter(sign for sign, _ in self.changes(_CONTEXT))
        return signs["+"], signs["-"]


def find_edits(tool_name: str, given: Any) -> FileEdits | None:
    """Return the edits that a tool call makes; None if it is no edit."""
    if isinstance(given, str):
        return _patched(given, {}) if _OPENING.match(given) else None
    if not isinstance(given, dict) or not _EDITS.search(tool_name):
        return None
    fields = cast("dict[str, Any]", given)
    path, patch = _first(fields, PATHS), _first(fields, _PATCH)
    if patch is not None and _OPENING.match(fields[patch]):
        return _patched(fields[patch], _without(fields, {patch, path}), _value(fields, path))
    return None if path is None else _edits_of_file(fields, path)


def _edits_of_file(fields: Mapping[str, Any], path: str) -> FileEdits | None:
    part, used = _replacement(fields)
    parts, rest = [part], dict[str, Any]()
    for name in _LISTS:
        for number, each in enumerate(_items(fields.get(name))):
            part, names = _replacement(each)
            if part is None:
                return None  # another kind of edit
            parts.append(part)
            used.add(name)
            rest |= {f"{name}[{number}].{key}": each[key] for key in each if key not in names}
    found = tuple(part for part in parts if part is not None)
    rest |= _without(fields, {path, *used})
    return FileEdits((fields[path],), found, rest) if found else None


def patch_in_command(command: str) -> FileEdits | None:
    """Return the edits of a shell command that calls `apply_patch` with a here-document."""
    start, end = command.find(_FRAME[0]), command.rfind(_FRAME[1])
    return _patched(command[start:end], {}) if 0 <= start < end else None


def _patched(patch: str, rest: Mapping[str, Any], path: str | None = None) -> FileEdits:
    found = [one or other for one, other in _FILE.findall(patch)]
    paths = dict.fromkeys(name for name in found if name != "/dev/null") or {path or "": None}
    return FileEdits(tuple(paths), (_Part(patch=patch),), rest)


def _replacement(fields: Mapping[str, Any]) -> tuple[_Part | None, set[str | None]]:
    """Return the edit that some fields describe, and the names of these fields."""
    patch = _first(fields, _PATCH)
    if patch is not None:
        return _Part(patch=fields[patch]), {patch}
    old, new = _first(fields, _OLD), _first(fields, _NEW)
    if new is not None or old is not None:
        return _Part(_value(fields, old) or "", _value(fields, new) or ""), {old, new}
    content = _first(fields, _CONTENT)
    return (None, set()) if content is None else (_Part(new=fields[content]), {content})


def _first(fields: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((name for name in names if isinstance(fields.get(name), str)), None)


def _value(fields: Mapping[str, Any], name: str | None) -> str | None:
    return None if name is None else fields[name]


def _without(fields: Mapping[str, Any], names: set[str | None]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def _items(value: Any) -> list[dict[str, Any]]:
    """Return the edits of a list; one of a wrong type becomes an edit without fields."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", item) if isinstance(item, dict) else {} for item in items]


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a text one by one: it may be a large file."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    if start < len(text):
        yield text[start:]


def _signed(sign: Sign, lines: Iterable[str]) -> Iterator[Change]:
    return ((sign, line) for line in lines)


def _patch_lines(patch: str) -> Iterator[Change]:
    for line in _lines(patch):
        if line.startswith(("+++ ", "--- ", "diff --git ", "*** ", "@@")):
            if line.rstrip() not in _FRAME:
                yield "@", line
        elif line[:1] in ("+", "-"):
            yield ("+" if line[0] == "+" else "-"), line[1:]
        else:
            yield " ", line.removeprefix(" ")


def _compared(old: list[str], new: list[str], context: int | None) -> Iterator[Change]:
    """Yield the diff of two texts; long ones are compared at their ends only."""
    from difflib import SequenceMatcher

    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    stop = len(old) - end
    yield from _unchanged(old[:start], context, at_start=True)
    a, b = old[start:stop], new[start : len(new) - end]
    if max(len(a), len(b)) > _MOST_COMPARED:
        yield from _signed("-", a)
        yield from _signed("+", b)
    else:
        for kind, i, j, k, n in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
            if kind == "equal":
                yield from _unchanged(a[i:j], context)
            else:
                yield from _signed("-", a[i:j])
                yield from _signed("+", b[k:n])
    yield from _unchanged(old[stop:], context, at_end=True)


def _unchanged(
    lines: list[str], context: int | None, *, at_start: bool = False, at_end: bool = False
) -> Iterator[Change]:
    """Yield unchanged lines; those that are not next to a change are left out."""
    if context is None or len(lines) <= context * 2 + 1:
        yield from _signed(" ", lines)
        return
    if not at_start:
        yield from _signed(" ", lines[:context])
    yield "@", "…"
    if not at_end:
        yield from _signed(" ", lines[-context:])
