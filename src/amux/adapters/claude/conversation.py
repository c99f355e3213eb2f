"""One conversation of a file: the session itself, or one sidechain inside it.

Three depths, each on top of the one before: what bears on cost (`Ledger`, `Tally`), what describes
it (`Story`), the messages themselves (`dialogue`). The first two are plain data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from amux.adapters.claude.ledger import Ledger
from amux.adapters.claude.records import Entry, text_of
from amux.adapters.claude.story import Story
from amux.adapters.claude.tally import Tally, UserLine
from amux.model.problems import Problem
from amux.model.trace import Mark
from amux.model.usage import Purpose

OnProblem = Callable[[Problem], None]


class Conversation(msgspec.Struct):
    """What is known of one conversation. `story` is None where only its cost is wanted."""

    tally: Tally
    story: Story | None
    agent_id: str | None = None
    ledger: Ledger = msgspec.field(default_factory=Ledger)

    @classmethod
    def begin(cls, purpose: Purpose, *, told: bool, agent_id: str | None = None) -> Conversation:
        """An empty one; `told`: with its story."""
        return cls(Tally(purpose, tools={} if told else None), Story() if told else None, agent_id)

    def settle(self) -> None:
        """Leave nothing in it that is still as it was read: it may be anything."""
        self.tally.book.settle_tokens()
        if self.story is not None:
            self.story.settle()

    def take_cost(self, entry: Entry) -> None:
        """Enter one line as far as it bears on cost."""
        self.ledger.take(entry)
        self.tally.take(entry)

    def take(self, entry: Entry, on_problem: OnProblem) -> UserLine | Sequence[Mark]:
        """Enter one line; what it turned out to be: a user line, or messages it begins."""
        story = self.story
        if story is None:
            self.take_cost(entry)
            return ()
        self.ledger.take(entry)
        story.see_line(entry)
        match entry.line.type:
            case "assistant":
                marks: Sequence[Mark] = (self.tally.take_answer(entry),)
            case "user":
                return self._take_user(entry, story, on_problem)
            case "system":
                marks = self.tally.take_system(entry)
            case _:
                return self._take_record(entry, story)
        story.see_marks(entry, marks)
        return marks

    def _take_user(self, entry: Entry, story: Story, on_problem: OnProblem) -> UserLine:
        user = self.tally.take_user(entry)
        story.see_user(user.parts)
        story.see_marks(entry, user.marks)
        for name in user.tool_names:
            if name is None:
                message = "a tool result belongs to no call"
                on_problem(Problem(code="orphan-result", message=message, line=entry.number))
        return user

    def _take_record(self, entry: Entry, story: Story) -> Sequence[Mark]:
        self.tally.take_record(entry)
        story.see_record(entry)
        if text_of(entry.line.uuid) is not None or entry.at is not None:
            story.see_marks(entry, ())
        return ()
