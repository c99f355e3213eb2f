"""Names of the folders and files that belong to a transcript."""

from __future__ import annotations

from pathlib import Path
from typing import Final

AGENT_PREFIX: Final = "agent-"
AGENTS: Final = "subagents"
ARCHIVE: Final = "archive"


def notes_of(path: Path) -> Path:
    """What is noted beside a sub-agent's transcript."""
    return path.with_suffix(".meta.json")


def agents_of(path: Path) -> Path:
    """Where the transcripts of a session's sub-agents lie."""
    folder = path.parent
    project = folder.parent.parent if folder.name == ARCHIVE else folder.parent
    return project / AGENTS / path.stem
