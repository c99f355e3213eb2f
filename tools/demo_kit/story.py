"""What happens in a session, told without any agent's format.

A story is a list of steps. The writers turn it into the files an agent would have left behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Literal

Agent = Literal["claude", "codex"]

SOURCES = PurePosixPath("/home/demo/src")


@dataclass(frozen=True)
class Command:
    """A shell command and what it printed."""

    line: str
    output: str
    purpose: str = ""
    exit_code: int = 0
    seconds: float = 0.4


@dataclass(frozen=True)
class Read:
    """A file, or a part of it, that the model looks at."""

    path: str
    text: str
    first_line: int = 1


@dataclass(frozen=True)
class Edit:
    """One passage of a file replaced."""

    path: str
    old: str
    new: str
    line: int = 1


@dataclass(frozen=True)
class Write:
    """A new file."""

    path: str
    text: str


@dataclass(frozen=True)
class Delegate:
    """A task given to a sub-agent."""

    key: str
    purpose: str
    task: str
    model: str
    steps: tuple[Step, ...]


Tool = Command | Read | Edit | Write | Delegate


@dataclass(frozen=True)
class Prompt:
    """What the person types."""

    text: str


@dataclass(frozen=True)
class Reply:
    """One model call: some thoughts, some words, some tools."""

    text: str = ""
    thinking: str = ""
    tools: tuple[Tool, ...] = ()


@dataclass(frozen=True)
class Report:
    """A sub-agent that ran in the background has finished and its parent is told."""


@dataclass(frozen=True)
class Compaction:
    """The history gets too long and is replaced by a summary."""

    summary: str


@dataclass(frozen=True)
class Interruption:
    """The person stops the model in the middle of a sentence."""

    text: str


@dataclass(frozen=True)
class Pause:
    """The person leaves; the session is resumed later."""

    length: timedelta


Step = Prompt | Reply | Report | Compaction | Interruption | Pause


@dataclass(frozen=True)
class Story:
    """One session. `key` is where its ids come from; `fork_of` is the key of another story."""

    key: str
    agent: Agent
    version: str
    project: str
    start: datetime
    model: str
    steps: tuple[Step, ...]
    branch: str = "main"
    name: str | None = None  # given by a person
    ai_title: str | None = None  # made up by the agent
    fork_of: str | None = None
    archived: bool = False
    provider: str = "openai"
    tags: tuple[str, ...] = field(default=())

    @property
    def cwd(self) -> str:
        """Where the agent was started."""
        return str(SOURCES / self.project)
