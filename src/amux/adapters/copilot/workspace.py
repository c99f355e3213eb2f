"""Reads `workspace.yaml`, the metadata that the agent stores next to a log.

Only the scalars that the agent writes at the top level are read: plain, quoted and block scalars.
Everything else is ignored, so that no YAML parser is needed for a title.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

from amux.adapters._kit.streams import open_stream

WORKSPACE: Final = "workspace.yaml"
_LARGEST: Final = 1 << 20
_PAIR: Final = re.compile(r"([A-Za-z_]\w{0,60}):(?: +(.*)|)")
_BLOCK: Final = re.compile(r"[|>][+-]?\d?")
_NULLS: Final = frozenset({"~", "null"})
_QUOTED: Final = ('"', "'", "|", ">")


class Workspace(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a session; all fields are empty if there is no file."""

    cwd: str | None = None
    name: str | None = None
    user_named: bool = False
    git_root: str | None = None
    branch: str | None = None
    repository: str | None = None


def read_workspace(log: Path) -> Workspace:
    """Return the metadata next to a log; a file that cannot be read is ignored."""
    try:
        with open_stream(log.with_name(WORKSPACE)) as stream:
            text = stream.read(_LARGEST).decode("utf-8", "replace")
    except OSError:
        return Workspace()
    values = parse_scalars(text)
    return Workspace(
        cwd=values.get("cwd"),
        name=values.get("name") or values.get("summary"),
        user_named=_is_named_by_person(values),
        git_root=values.get("git_root"),
        branch=values.get("branch"),
        repository=values.get("repository"),
    )


def _is_named_by_person(values: dict[str, str]) -> bool:
    """Return whether `name` is a person's: before `user_named`, the agent's was `summary`."""
    flag = values.get("user_named")
    return flag == "true" if flag is not None else {"name", "summary"} <= values.keys()


def parse_scalars(text: str) -> dict[str, str]:
    """Return the scalars at the top level of a YAML mapping."""
    found: dict[str, str] = {}
    lines = text.splitlines()
    index = 0
    while index < len(lines):
        pair = _PAIR.fullmatch(lines[index])
        index += 1
        if pair is None:
            continue
        rest: list[str] = []
        while index < len(lines) and (not lines[index] or lines[index][0] in " \t"):
            rest.append(lines[index])
            index += 1
        first = (pair[2] or "").strip()
        value = _scalar(first, rest)
        is_null = value in _NULLS and not first.startswith(_QUOTED)
        if value and not is_null:
            found.setdefault(pair[1], value)
    return found


def _scalar(first: str, rest: list[str]) -> str:
    if _BLOCK.fullmatch(first):
        joint = "\n" if first.startswith("|") else " "
        return joint.join(line.strip() for line in rest).strip()
    whole = " ".join([first, *(line.strip() for line in rest)]).strip()
    if whole.startswith('"'):
        try:  # the agent writes only the escapes that JSON has
            return msgspec.json.decode(whole, type=str)
        except (msgspec.DecodeError, UnicodeError):
            return whole.strip('"')
    if whole.startswith("'") and whole.endswith("'") and len(whole) > 1:
        return whole[1:-1].replace("''", "'")
    return whole
