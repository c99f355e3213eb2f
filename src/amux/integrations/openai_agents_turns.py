"""Turns, tools and usage of a session of the OpenAI Agents SDK, computed from its records.

A turn begins with a message of the user and is numbered from 1. The usage of a run is stored in one
control record per model call, which names the turn that the run answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from amux.rollout import control
from amux.rollout.formats.base import count_of, text_of
from amux.rollout.formats.openai_items import read_messages
from amux.rollout.records import NewRecord, Record, as_mapping, encode_payload

if TYPE_CHECKING:
    from agents.items import ModelResponse
    from agents.result import RunResultBase
    from agents.usage import Usage

T = TypeVar("T")

PREVIEW: Final = 100

_COUNTS: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


def is_prompt(record: Record) -> bool:
    """Return whether an item is a message of the user, with which a turn begins."""
    return as_mapping(record.payload).get("role") == "user"


def prompts_of(records: Sequence[Record]) -> list[Record]:
    """Return the items that begin the turns; the first belongs to turn 1."""
    return [record for record in records if is_prompt(record)]


def describe_turns(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return the turns with the prompt, its beginning and its time."""
    turns: list[dict[str, Any]] = []
    for number, record in enumerate(prompts_of(records), 1):
        content = as_mapping(record.payload).get("content", "")
        preview = content if isinstance(content, str) else encode_payload(content)
        turns.append(
            {
                "turn": number,
                "content": preview if len(preview) <= PREVIEW else f"{preview[:PREVIEW]}...",
                "full_content": content,
                "timestamp": record.at.isoformat(),
                "can_branch": True,
            }
        )
    return turns


def matches(turn: Mapping[str, Any], term: str) -> bool:
    """Return whether the prompt of a turn contains a text, in any case."""
    return term.casefold() in text_of(turn["full_content"]).casefold()


def count_tools(records: Sequence[Record]) -> list[tuple[str, int, int]]:
    """Return the tools with the number of their calls in each turn, and its number."""
    counts: Counter[tuple[int, str]] = Counter()
    turn = 0
    for record in records:
        turn += is_prompt(record)
        for message in read_messages(record, as_mapping(record.payload)):
            counts.update((turn, call.tool_name) for call in message.tool_calls)
    return [(name, count, turn) for (turn, name), count in counts.items()]


def usage_records(
    result: RunResultBase, prompt: Record | None, model: str | None
) -> list[NewRecord]:
    """Return the usage of a run, one record for every model call that reported its tokens.

    The id of a record depends on its content, so that storing one result twice counts it once.
    """
    found: list[NewRecord] = []
    for number, response in enumerate(result.raw_responses):
        usage = response.usage
        if not usage.total_tokens and not usage.input_tokens and not usage.output_tokens:
            continue  # the provider reported nothing
        event = control.event(
            control.USAGE,
            model=model or _model_of(result, response),
            usage=_disjoint(usage),
            turn=None if prompt is None else prompt.id,
            from_seq=None if prompt is None else prompt.seq,
        )
        outputs = [repr(item) for item in response.output]
        seen = (number, response.response_id, outputs, encode_payload(event.payload))
        digest = blake2b(repr(seen).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        found.append(msgspec.structs.replace(event, id=f"usage-{digest}"))
    return found


def _model_of(result: RunResultBase, response: ModelResponse) -> str | None:
    """Return the model of the agent that got a response; None if it is not known by name."""
    outputs = {id(item) for item in response.output}
    agents = [item.agent for item in result.new_items if id(item.raw_item) in outputs]
    given: Any = (agents[0] if agents else result.last_agent).model
    name = given if isinstance(given, str) else getattr(given, "model", None)
    return name if isinstance(name, str) and name else None


def _disjoint(usage: Usage) -> dict[str, int]:
    """Return counts that do not overlap: the input of the SDK includes what the cache had."""
    read = count_of(getattr(usage.input_tokens_details, "cached_tokens", 0))
    write = count_of(getattr(usage.input_tokens_details, "cache_write_tokens", 0))
    return {
        "input_tokens": max(0, count_of(usage.input_tokens) - read - write),
        "cache_read_tokens": read,
        "cache_write_tokens": write,
        "output_tokens": count_of(usage.output_tokens),
        "reasoning_tokens": count_of(getattr(usage.output_tokens_details, "reasoning_tokens", 0)),
    }


def turn_usage(records: Sequence[Record], events: Sequence[Record]) -> list[dict[str, Any]]:
    """Return the usage of the turns of a conversation that have any, in the words of the SDK."""
    numbers = {record.id: number for number, record in enumerate(prompts_of(records), 1)}
    turns: dict[int, list[Mapping[str, Any]]] = {}
    for payload in map(_payload, events):
        number = numbers.get(str(payload.get("turn")))
        if number is not None:
            turns.setdefault(number, []).append(as_mapping(payload.get("usage")))
    return [{"user_turn_number": number, **_sum(turns[number])} for number in sorted(turns)]


def total_usage(events: Sequence[Record]) -> dict[str, int] | None:
    """Return the usage of all runs, those of popped and cleared turns included; None for none."""
    payloads = [_payload(event) for event in events]
    if not payloads:
        return None
    total = _sum([as_mapping(payload.get("usage")) for payload in payloads])
    names = ("requests", "input_tokens", "output_tokens", "total_tokens")
    turns = {payload.get("turn") for payload in payloads}
    return {**{name: total[name] for name in names}, "total_turns": len(turns)}


def _payload(record: Record) -> Mapping[str, Any]:
    return as_mapping(record.payload)


def _sum(calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    given, output, read, write = (sum(_each(calls, name)) for name in _COUNTS)
    return {
        "requests": len(calls),
        "input_tokens": given + read + write,
        "output_tokens": output,
        "total_tokens": given + read + write + output,
        "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": write},
        "output_tokens_details": {"reasoning_tokens": sum(_each(calls, "reasoning_tokens"))},
    }


def _each(calls: Sequence[Mapping[str, Any]], name: str) -> Iterator[int]:
    return (count_of(call.get(name)) for call in calls)
