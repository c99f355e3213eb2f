"""Answers in steps: one step is one model call, and one message of ours.

Since 1.0 an assistant message has one step; before, it held all steps of a turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from amux.adapters._kit.values import mapping, nano_usd, text
from amux.adapters.opencode.records import MessageRecord, PartRecord, Stored, text_of
from amux.adapters.opencode.usage import Figures, UsageRules, figures_of, gaps_of
from amux.model.incomplete import CALL_INTERRUPTED
from amux.model.trace import key_of
from amux.model.usage import Call, Purpose

_ABORTED = "MessageAbortedError"


@dataclass(slots=True)
class Step:
    """The parts of one model call, or of something that was none."""

    id: str  # the message's own, or that of the part where a later step begins
    parts: list[PartRecord] = field(default_factory=list[PartRecord])
    is_started: bool = False
    finish: PartRecord | None = None

    def texts(self, kind: str) -> str:
        """All that was said (`text`) or thought (`reasoning`)."""
        found = (text_of(part.text) for part in self.parts if part.type == kind)
        return "\n".join(said for said in found if said.strip())

    @property
    def tools(self) -> list[PartRecord]:
        """Its tool calls."""
        return [part for part in self.parts if part.type == "tool"]


def steps_of(stored: Stored) -> list[Step]:
    """Cut an assistant message where its steps begin; always at least one."""
    steps = [Step(id=stored.id)]
    for part in stored.parts:
        if part.type == "step-start":
            if steps[-1].is_started:
                steps.append(Step(id=text(part.id) or f"{stored.id}#{len(steps)}"))
            steps[-1].is_started = True
        elif part.type == "step-finish":
            steps[-1].finish = part
        else:
            steps[-1].parts.append(part)
    return steps


def session_rules(messages: list[Stored]) -> UsageRules:
    """How this session's figures are to be read."""
    return UsageRules(_all_figures(messages))


def _all_figures(messages: list[Stored]) -> Iterator[tuple[str | None, Figures]]:
    for stored in messages:
        records: list[Any] = [stored.record.tokens, *(part.tokens for part in stored.parts)]
        for tokens in records:
            figures = figures_of(tokens)
            if figures is not None:
                yield text(stored.record.provider), figures


def calls_of(
    stored: Stored, steps: list[Step], rules: UsageRules, *, in_child: bool
) -> list[Call | None]:
    """The call behind each step; None where no model was asked or none answered.

    The steps' own figures count; the message repeats them (since 1.0) or holds only the last.
    """
    purpose: Purpose = "subagent" if in_child else "main"
    if stored.record.is_summary:
        purpose = "compaction"
    calls: list[Call | None] = []
    for number, step in enumerate(steps):
        source = _figures_source(stored, steps, number)
        figures = None if source is None else figures_of(source.tokens)
        gaps = () if source is None else gaps_of(source.tokens)
        if source is not None and figures is not None and (gaps or not figures.is_empty):
            call = _call(stored, step, number, purpose=purpose, figures=figures)
            tokens = rules.tokens(text(stored.record.provider), figures)
            # A price of nothing for counted tokens means that OpenCode knew none.
            nusd = nano_usd(source.cost) or None
            calls.append(replace(call, tokens=tokens, native_nusd=nusd, gaps=gaps))
        elif step.finish is None and _was_interrupted(stored, step):
            call = _call(stored, step, number, purpose=purpose, figures=None)
            calls.append(replace(call, native_nusd=0, gaps=(CALL_INTERRUPTED,)))
        else:
            calls.append(None)
    return calls


def _figures_source(
    stored: Stored, steps: list[Step], number: int
) -> PartRecord | MessageRecord | None:
    """Where a step's figures stand: at its end; in the message only if no step has any."""
    finish = steps[number].finish
    if finish is None and number == 0 and all(step.finish is None for step in steps):
        return stored.record
    return finish


def _call(
    stored: Stored, step: Step, number: int, *, purpose: Purpose, figures: Figures | None
) -> Call:
    return Call(
        key=_key(stored, number, figures),
        model=text(stored.record.model),
        at=stored.record.created,
        purpose=purpose,
        message_id=step.id,
        copied=stored.is_copy,
    )


def _was_interrupted(stored: Stored, step: Step) -> bool:
    """Whether a call was under way that no figures tell of."""
    error = mapping(stored.record.error)
    if error and error.get("name") != _ABORTED:
        return step.is_started
    return step.is_started or bool(error) or not stored.record.is_completed


def _key(stored: Stored, number: int, figures: Figures | None) -> str:
    """Equal in every copy: copies get new ids, but keep time, model and figures."""
    counted = "" if figures is None else ".".join(str(figure) for figure in figures)
    created = stored.record.created
    began = stored.id if created is None else created.isoformat()
    return f"{began}/{number}/{text(stored.record.model) or ''}/{counted}"


def identity_of(calls: list[Call]) -> list[int]:
    """Keys of content that only a copy can share."""
    return [key_of(call.key) for call in calls if call.tokens.total]
