"""Counts the calls of processes that wrote no usage records, by their shutdowns and replies.

A process begins with `session.start` or `session.resume`. If it ended in order, `session.shutdown`
has the totals of its calls, sub-agents included: up to 1.0.65 only those of this process, from
1.0.66 on added to the totals of the shutdown before. A later total continues an earlier one if it
contains that one together with all replies since. The difference of the two is the usage of one
process. A fork repeats a shutdown with its id, so that all its copies are one call.

A process that was killed, or that still runs, has recorded only the output of each reply.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from amux.adapters._kit.values import count, damage_in, is_mapping, mapping, text
from amux.adapters.copilot.events import Data, Event, SelectedModel
from amux.adapters.copilot.usage import FIGURES, tokens_of
from amux.model.incomplete import USAGE_NOT_RECORDED
from amux.model.usage import Call, Tokens

_REPLY: Final = "reply:"


def is_reply(call: Call) -> bool:
    """Return whether a call is known by the output of its reply alone."""
    return call.key.startswith(_REPLY)


class Totals(msgspec.Struct, frozen=True):
    """The totals of a shutdown: tokens and gaps by model, and the number of calls."""

    models: dict[str, tuple[Tokens, tuple[str, ...]]] = {}
    requests: int = 0
    is_accounting: bool = False  # computed from usage records, those of a fork's origin included

    @property
    def output(self) -> int:
        """The output of all models."""
        return sum(tokens.output for tokens, _ in self.models.values())

    def continues(self, earlier: Totals, *, replies: int, output: int) -> bool:
        """Return whether these totals contain earlier ones and the replies since then."""
        return (
            self.requests >= earlier.requests + replies
            and self.output >= earlier.output + output
            and all(
                model in self.models and _contains(self.models[model][0], tokens)
                for model, (tokens, _) in earlier.models.items()
            )
        )

    def since(self, earlier: Totals) -> Totals:
        """Return the difference to the totals that these continue."""
        nothing = (Tokens(), ())
        return Totals(
            models={
                model: (_difference(tokens, earlier.models.get(model, nothing)[0]), gaps)
                for model, (tokens, gaps) in self.models.items()
            },
            requests=self.requests - earlier.requests,
        )


def totals_of(data: Data) -> Totals:
    """Return the totals that a shutdown records."""
    snapshot = mapping(data.accounting_snapshot)
    is_accounting = not is_mapping(data.model_metrics)
    metrics = mapping(snapshot.get("modelMetrics") if is_accounting else data.model_metrics)
    models: dict[str, tuple[Tokens, tuple[str, ...]]] = {}
    requests = 0
    for model, figures in metrics.items():
        usage = mapping(mapping(figures).get("usage"))
        models[model] = tokens_of(usage), damage_in(usage, *FIGURES)
        requests += count(mapping(mapping(figures).get("requests")).get("count")) or 0
    models = {name: one for name, one in models.items() if one[0].total or one[1]}
    return Totals(models, requests, is_accounting)


def _contains(tokens: Tokens, part: Tokens) -> bool:
    return all(whole >= one for whole, one in zip(_buckets(tokens), _buckets(part), strict=True))


def _buckets(tokens: Tokens) -> tuple[int, int, int, int]:
    return tokens.input, tokens.cache_read, tokens.cache_write, tokens.output


def _difference(tokens: Tokens, part: Tokens) -> Tokens:
    thinking = tokens.thinking
    return Tokens(
        input=tokens.input - part.input,
        cache_read=tokens.cache_read - part.cache_read,
        cache_write=tokens.cache_write - part.cache_write,
        output=tokens.output - part.output,
        thinking=None if thinking is None else max(0, thinking - (part.thinking or 0)),
    )


class _Process:
    """The events of one process up to now."""

    def __init__(self) -> None:
        self.records = 0
        self.replies: Counter[str | None] = Counter()  # own ones, by agent
        self.outputs: dict[str, tuple[str | None, Call]] = {}  # agent and call by key
        self.last_call: tuple[str | None, str] | None = None  # agent, and the provider's id
        self.last_key = ""


class ProcessUsage:
    """Collects the calls of a log that no usage record describes."""

    def __init__(self) -> None:
        self.calls: list[tuple[str | None, Call]] = []  # each with the agent that made it
        self.covered: Counter[str | None] = Counter()  # replies in a counted total, by agent
        self.lacks_records = False  # a shutdown counts more calls than there are records
        self.selected = SelectedModel()
        self._records = 0
        self._requests = 0  # calls in counted totals
        self._earlier: Totals | None = None
        self._process = _Process()

    def take(self, event: Event, *, copied: bool) -> None:
        """Add one event of any agent."""
        self.selected.take(event)
        match event.type:
            case "session.start" | "session.resume" if event.data.session_was_active is not True:
                self.finish()
            case "assistant.turn_start":
                self._process.last_call = None
            case "assistant.message":
                self._process.replies[event.agent] += not copied
                self._reply(event)
            case "session.usage_record" if mapping(event.data.usage):
                self._records += 1
                self._process.records += 1
            case "session.shutdown" if event.agent is None:
                self._shutdown(event)
            case _:
                pass

    def finish(self) -> None:
        """End a process that recorded no shutdown: the output of its replies is all there is."""
        if not self._process.records:
            self.calls += self._process.outputs.values()
        self._process = _Process()

    def _reply(self, event: Event) -> None:
        process, data = self._process, event.data
        output = count(data.output_tokens)
        if not output:
            return
        api_id = text(data.api_call_id)
        if api_id is None or process.last_call != (event.agent, api_id):
            process.last_key = f"{_REPLY}{event.name}"
        process.last_call = None if api_id is None else (event.agent, api_id)
        known = process.outputs.get(process.last_key)  # an earlier part of one answer
        if known is not None and known[1].tokens.output >= output:
            return
        selected = self.selected.name if event.agent is None else None
        call = Call(
            key=process.last_key,
            model=text(data.model) or selected,
            at=event.at,
            tokens=Tokens(output=output),
            purpose="main" if event.agent is None else "subagent",
            message_id=event.name,
            gaps=(USAGE_NOT_RECORDED,),
        )
        process.outputs[process.last_key] = event.agent, call

    def _shutdown(self, event: Event) -> None:
        totals, process, earlier = totals_of(event.data), self._process, self._earlier
        if self._records:
            self.lacks_records = self._records + self._requests < totals.requests
        if not totals.models:
            return
        self._earlier, self._process = totals, _Process()
        if process.records or (totals.is_accounting and self._records):
            return
        outputs = [call.tokens.output for _, call in process.outputs.values()]
        if earlier is not None and totals.continues(
            earlier, replies=len(outputs), output=sum(outputs)
        ):
            totals = totals.since(earlier)
        self._requests += totals.requests
        self.covered += process.replies
        for model, (tokens, gaps) in totals.models.items():
            if tokens.total or gaps:
                key = f"shutdown:{event.name}:{model}"
                call = Call(key=key, model=model, at=event.at, tokens=tokens, gaps=gaps)
                self.calls.append((None, call))
