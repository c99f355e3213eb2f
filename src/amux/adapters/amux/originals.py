"""Finds the files that Claude Code wrote beside the transcripts in the store.

The Claude Agent SDK sends every line to the store that Claude Code also writes to its own folder.
While that file exists its calls are counted there, and the thread says so; when Claude Code has
cleaned it up, they are those of the thread. Nothing but the existence of the file is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from amux.adapters._kit.streams import open_stream
from amux.adapters.amux import CLAUDE_FORMAT
from amux.adapters.amux.threads import meta_in

_BEGINNING: Final = 1 << 12
_FORMAT: Final = f'"{CLAUDE_FORMAT}"'.encode()


def original_files(rollout: Path, roots: Sequence[Path]) -> tuple[Path, ...]:
    """Return the files whose existence decides what a rollout counts; none for most rollouts."""
    try:
        with open_stream(rollout) as stream:
            if _FORMAT not in stream.read(_BEGINNING):
                return ()
    except OSError:
        return ()
    meta = meta_in(rollout)
    return () if meta is None else possible_files(meta.payload_format, meta.key, roots)


def possible_files(
    payload_format: str, key: tuple[str, ...] | None, roots: Sequence[Path]
) -> tuple[Path, ...]:
    """Return the files in which Claude Code may have the transcript of a thread with a key."""
    if payload_format != CLAUDE_FORMAT or key is None:
        return ()
    parts = [*key[:2], *(part for name in key[2:] if name for part in name.split("/"))]
    if any(part in {"", ".", ".."} or "/" in part or "\0" in part for part in parts):
        return ()  # a key may be any text: it must not lead elsewhere
    *folders, name = parts
    return tuple(root.joinpath(*folders, f"{name}.jsonl") for root in roots)


def exists(files: Sequence[Path]) -> bool:
    """Return whether one of some files exists."""
    return any(map(_is_file, files))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False
