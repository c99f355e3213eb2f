"""Readings of a rollout: streamed from the start, or taken up where an earlier one stopped.

What a reading knows at the end of a whole line is put away as bytes. A last line without an end
counts for the facts but not for what is put away, because it may still grow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from amux.adapters._base import Head, Item, Progress, Reading
from amux.adapters.codex.entries import Batch, Run
from amux.adapters.codex.log import Log
from amux.adapters.codex.rollout import Rollout
from amux.adapters.codex.rules import pass_time, take_record, take_run
from amux.adapters.codex.saved import save
from amux.model.problems import Problem


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that stands before a place in the file."""

    lines: int
    rollout: Rollout


def read_rollout(
    batches: Iterable[Batch | Problem], rollout: Rollout, *, archived: bool
) -> Iterator[Item]:
    """Stream one rollout: head, messages and calls, facts; problems where they turn up."""
    news = _News(rollout)
    for batch in batches:
        if isinstance(batch, Run) and rollout.conversation.bodies:
            # Line by line, so that messages come out while a large file is read.
            for index in range(len(batch.entries)):
                take_run(rollout, batch.part(index, index + 1))
                yield from news.items()
            pass_time(rollout, batch)
        else:
            _take(rollout, batch)
            yield from news.items()
    if not rollout.begun:
        yield from unknown_format(rollout)
        return
    rollout.conversation.end_turn()
    yield from rollout.conversation.drain()
    yield from rollout.conversation.ledger.calls[news.given :]
    yield rollout.facts(archived=archived)


def read_on(log: Log, rollout: Rollout, *, archived: bool) -> Reading:
    """Read the rest of a file and say how far it was read."""
    for batch in log.whole():
        _take(rollout, batch)
        rollout.fresh.clear()  # nobody reads along
    progress = _progress(log, rollout)
    for batch in log.rest():
        _take(rollout, batch)
    if not rollout.begun:
        problems = (*rollout.problems, *unknown_format(rollout))
        return Reading(facts=(), problems=problems, progress=progress)
    rollout.conversation.end_turn()
    return Reading(facts=(rollout.facts(archived=archived),), progress=progress)


def unknown_format(rollout: Rollout) -> Iterator[Problem]:
    """What to say of a file in which no session was found."""
    if not rollout.is_closed_to_us:
        message = "no record of a Codex session was found"
        yield Problem(code="unknown-format", message=message, path=rollout.path)


class _News:
    """What a rollout has to tell since it was last asked."""

    def __init__(self, rollout: Rollout) -> None:
        self.given = 0  # calls
        self._rollout = rollout
        self._has_head = False

    def items(self) -> list[Item]:
        rollout = self._rollout
        news: list[Item] = []
        if rollout.begun and not self._has_head:
            self._has_head = True
            news.append(Head(session_id=rollout.lineage.session_id))
        if rollout.fresh:
            news += rollout.fresh
            rollout.fresh.clear()
        if rollout.conversation.done:
            news += rollout.conversation.drain()
        # The newest call may still turn out to be a compaction's.
        settled = len(rollout.conversation.ledger.calls) - 1
        if self.given < settled:
            news += rollout.conversation.ledger.calls[self.given : settled]
            self.given = settled
        return news


def _take(rollout: Rollout, batch: Batch | Problem) -> None:
    if isinstance(batch, Run):
        take_run(rollout, batch)
        pass_time(rollout, batch)
    elif isinstance(batch, Problem):
        rollout.note(batch)
    else:
        take_record(rollout, batch)


def _progress(log: Log, rollout: Rollout) -> Progress | None:
    rollout.conversation.gaps.settle()
    state = save(State(lines=log.lines, rollout=rollout))
    return None if state is None else Progress(offset=log.offset, state=state)
