"""Helpers that read Claude Code transcripts in every way and in steps, and compare results."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from amux.adapters._base import Checkpoint, Head, SourceRef, Want
from amux.adapters.claude import ADAPTER
from amux.model.facts import Facts
from amux.model.usage import Call

CAPTURES = Path(__file__).parent.parent / "captures"
HOMES = sorted(
    home
    for agent in ("claude", "claude-agent-sdk")
    for home in CAPTURES.glob(f"{agent}/*/home/.claude/projects")
)
SOURCES = [source for home in HOMES for source in ADAPTER.discover(home)]
NAMES = [source.path.relative_to(CAPTURES).as_posix() for source in SOURCES]


def facts_of(source: SourceRef, want: Want) -> list[Facts]:
    return [item for item in ADAPTER.read(source, want=want) if isinstance(item, Facts)]


def check_readings(source: SourceRef) -> None:
    """Check that facts do not depend on bodies: usual lines have rules of their own without."""
    facts = facts_of(source, "facts")
    assert facts == facts_of(source, "all")
    assert facts == facts_of(source, "texts")
    items = list(ADAPTER.read(source, want="facts"))
    heads = [item.session_id for item in items if isinstance(item, Head)]
    assert heads == [
        item.session_id for item in ADAPTER.read(source, want="all") if isinstance(item, Head)
    ]
    calls = [call for one in facts for call in one.calls]
    assert [item for item in items if isinstance(item, Call)] == calls


def check_steps(source: SourceRef, data: bytes, cuts: Iterable[int]) -> None:
    """Read the file as it grows, and check that each step equals reading it at once."""
    checkpoint: Checkpoint | None = None
    for size in [*sorted(cuts), len(data)]:
        source.path.write_bytes(data[:size])
        reading = ADAPTER.resume_read(source, checkpoint=checkpoint)
        assert list(reading.facts) == facts_of(source, "facts")
        assert reading.problems == ()
        checkpoint = reading.checkpoint
        assert checkpoint is not None
        assert checkpoint.offset == data.rfind(b"\n", 0, size) + 1
