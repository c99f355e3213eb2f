"""Writes threads of the session store: as rows, as tables, and as JSON with camelCase names."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from amux.faces.cli.figures import UNKNOWN, ago, amount, rfc3339, short_ids
from amux.faces.cli.output import Column, Output

if TYPE_CHECKING:
    from amux.rollout.log import MessageHit
    from amux.rollout.threads import ThreadSummary

MODEL_WIDTH = 20
_NANO = 1e9
_OPEN, _CLOSE = ">>>", "<<<"
_INTERNAL = frozenset({"last_call"})


def as_json(value: object) -> Any:
    """Return a value of the store for `--json`: camelCase names, no empty fields, dollars."""
    import msgspec

    if isinstance(value, list | tuple):
        return [as_json(each) for each in cast("Sequence[object]", value)]
    if not isinstance(value, msgspec.Struct):
        return value
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(value):
        if field.name in _INTERNAL:
            continue
        item = getattr(value, field.name)
        if field.name in {"cost_nusd", "cost_usd"}:
            if item:  # a cost that was not recorded is unknown
                found["costUsd"] = item / _NANO if field.name == "cost_nusd" else item
        elif field.required or item not in (None, "", (), {}):
            found[_camel(field.name)] = as_json(item)
    return found


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)


def write_threads(output: Output, threads: Sequence[ThreadSummary], *, now: datetime) -> None:
    """Draw a table on a terminal, else write rows."""
    if not output.is_terminal:
        output.rows(map(_row, threads))
    elif threads:
        _draw(output, threads, now=now)


def _row(thread: ThreadSummary) -> tuple[str, ...]:
    """Return a row of tab-separated output; new columns are added at the end."""
    return (
        f"amux:{thread.thread_id}",
        thread.model or UNKNOWN,
        str(thread.turn_count),
        str(thread.message_count),
        rfc3339(thread.last_active),
        thread.source,
        ",".join(thread.tags),
        _summary(thread),
    )


def _draw(output: Output, threads: Sequence[ThreadSummary], *, now: datetime) -> None:
    ids = short_ids(each.thread_id for each in threads)
    columns = [
        Column("Thread", style="cyan"),
        Column("Model", widest=MODEL_WIDTH),
        Column("Turns", is_number=True),
        Column("Messages", is_number=True),
        Column("Active"),
        Column("Source"),
        Column("Summary", grows=True),
    ]
    rows = [
        (
            ids[each.thread_id],
            each.model or UNKNOWN,
            f"{each.turn_count:,}",
            f"{each.message_count:,}",
            ago(each.last_active, now=now),
            each.source,
            _summary(each),
        )
        for each in threads
    ]
    output.fitted_table(columns, rows, spare=("Source", "Model", "Turns", "Active"))


def _summary(thread: ThreadSummary) -> str:
    """Return the title or prompt, preceded by the kind and state unless they are ordinary."""
    labels = [
        *([] if thread.kind == "session" else [thread.kind]),
        *(["archived"] if thread.archived else []),
    ]
    title = thread.title or thread.preview or "(no prompt)"
    return f"[{', '.join(labels)}] {title}" if labels else title


def recorded_cost(nusd: int) -> str:
    """Format the cost that was recorded; no recorded cost is unknown, not zero."""
    return amount(nusd / _NANO if nusd else None)


def write_message_hits(output: Output, hits: Sequence[MessageHit], *, now: datetime) -> None:
    """Write the messages that a search found; a terminal shows matches highlighted."""
    if not output.is_terminal:
        output.rows(
            (f"amux:{hit.thread_id}", hit.record_id, hit.role, rfc3339(hit.at), hit.snippet,
             hit.title or "")
            for hit in hits
        )  # fmt: skip
        return
    ids = short_ids(hit.thread_id for hit in hits)
    shown = ""
    for hit in hits:
        if hit.thread_id != shown:
            shown = hit.thread_id
            facts = [f"amux:{ids[shown]}", ago(hit.at, now=now), hit.model or UNKNOWN]
            output.heading("  ".join([*facts, *([hit.title] if hit.title else [])]))
        prefix = f"  {hit.role}  "
        text, ranges = _without_signs(hit.snippet)
        shift = len(prefix)
        output.marked(prefix + text, [(start + shift, end + shift) for start, end in ranges])


def _without_signs(snippet: str) -> tuple[str, list[tuple[int, int]]]:
    """Return a snippet without >>> and <<<, and the ranges of the matches between them."""
    first, *others = snippet.split(_OPEN)
    text, ranges = first, list[tuple[int, int]]()
    for each in others:
        match, closed, rest = each.partition(_CLOSE)
        if closed:
            ranges.append((len(text), len(text) + len(match)))
            text += match + rest
        else:
            text += _OPEN + each
    return text, ranges
