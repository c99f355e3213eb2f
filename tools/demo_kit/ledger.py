"""The expected calls and costs, against which a reader of the demo home can be checked.

The ledger is kept while the stories are told. It never looks at the files.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from demo_kit.story import Command, Compaction, Interruption, Read, Reply, Step, Tool

NANO = 1_000_000_000

_USD_PER_MILLION = {  # input, read from the cache, written to the cache for 5 minutes, output
    "claude-sonnet-4-5-20250929": (3.0, 0.3, 3.75, 15.0),
    "claude-opus-4-1-20250805": (15.0, 1.5, 18.75, 75.0),
    "claude-haiku-4-5-20251001": (1.0, 0.1, 1.25, 5.0),
}


@dataclass(frozen=True)
class Usage:
    """Billed tokens. `thinking` is a part of `output`; the others do not overlap."""

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    thinking: int = 0

    @property
    def context(self) -> int:
        """Return the total input tokens."""
        return self.input + self.cache_read + self.cache_write

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.output + other.output,
            self.thinking + other.thinking,
        )


@dataclass(frozen=True)
class Billed:
    """One model call. `on_disk` is False for calls that the agent makes but does not record."""

    model: str
    usage: Usage
    on_disk: bool = True

    @property
    def nano_usd(self) -> int:
        """Return the cost as computed by Claude Code, for its own models only."""
        per_token = [round(usd * 1000) for usd in _USD_PER_MILLION[self.model]]
        used = (self.usage.input, self.usage.cache_read, self.usage.cache_write, self.usage.output)
        return sum(rate * count for rate, count in zip(per_token, used, strict=True))


@dataclass
class Account:
    """The expected content and cost of one session."""

    agent: str
    session_id: str
    kind: str
    cwd: str
    title: str = ""
    parent: str | None = None
    archived: bool = False
    tags: tuple[str, ...] = ()
    prompts: list[str] = field(default_factory=list[str])
    replies: list[str] = field(default_factory=list[str])
    commands: int = 0
    failed_commands: int = 0
    compactions: int = 0
    calls: list[Billed] = field(default_factory=list[Billed])
    incomplete: list[str] = field(default_factory=list[str])
    records_thinking: bool = True
    recorded_nano_usd: int | None = None  # the agent's own total, if it records one

    def note(self, step: Step) -> None:
        """Count the content that a reader must find."""
        if isinstance(step, Compaction):
            self.compactions += 1
        elif isinstance(step, (Reply, Interruption)) and step.text:
            self.replies.append(step.text)
        if isinstance(step, Reply):
            for tool in step.tools:
                self._note_tool(tool)

    def _note_tool(self, tool: Tool) -> None:
        if isinstance(tool, Command):
            self.commands += 1
            self.failed_commands += tool.exit_code != 0
        elif isinstance(tool, Read) and self.agent == "codex":
            self.commands += 1  # Codex has only the shell for that

    def inherit(self, parent: Account) -> None:
        """Copy the history of another session, without its calls."""
        self.prompts += parent.prompts
        self.replies += parent.replies
        self.commands += parent.commands
        self.failed_commands += parent.failed_commands

    def to_dict(self) -> dict[str, Any]:
        """Return the account as JSON, with the recorded tokens by model."""
        by_model: dict[str, Usage] = {}
        for call in self.calls:
            if call.on_disk:
                by_model[call.model] = by_model.get(call.model, Usage()) + call.usage
        fields = asdict(self)
        fields["calls"] = sum(1 for call in self.calls if call.on_disk)
        fields["tokens"] = {model: asdict(usage) for model, usage in by_model.items()}
        return fields
