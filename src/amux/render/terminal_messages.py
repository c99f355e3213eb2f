"""The messages of one session as lines of a terminal, one after the other.

A heading names the speaker, the time and the number of the message. Messages that only call tools
follow without one as long as speaker and minute stay the same. A result is shown with its call.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final, NamedTuple

from amux.model.change import SessionChange
from amux.model.message import SessionMessage
from amux.render.content import LOOK_AHEAD, cost_text, label_of, one_line
from amux.render.terminal_text import (
    BLANK,
    INDENT,
    Layout,
    Line,
    Style,
    block,
    cells,
    count_lines,
    cut,
    folded_prose,
    has_text,
    one_row,
    prose,
)
from amux.render.terminal_tools import (
    call_lines,
    image_lines,
    outcome_of,
    outcome_of_result,
    result_lines,
)

_THOUGHT_ROWS: Final = 3
_SUMMARY_ROWS: Final = 3
_ERROR_ROWS: Final = 4
_API_ERROR: Final = re.compile(
    r"(?:\[?API Error:?|\w*APICallError:?|(?=[45]\d\d\b))\s*", re.IGNORECASE
)
_RULE_WIDTH: Final = 80


class AnsweredMessage(NamedTuple):
    """A message with its number and the results of its calls by their ids."""

    number: int
    message: SessionMessage
    results: dict[str, SessionMessage]
    awaited: set[str]  # calls that have a result, which was not met yet
    unanswered: set[str]


def with_results(messages: Iterable[SessionMessage]) -> Iterator[AnsweredMessage]:
    """Yield the messages, each with the results of its calls, which are not yielded themselves.

    A message waits for the results of its calls in a window of a few messages. A result that
    comes later is yielded like any other message.
    """
    window: deque[AnsweredMessage] = deque()
    for number, message in enumerate(messages, start=1):
        if not _is_taken(window, message):
            calls = message.tool_calls
            awaited = {call.tool_call_id for call in calls if call.output is not None}
            ids = {call.tool_call_id for call in calls}
            window.append(AnsweredMessage(number, message, {}, awaited, ids))
        while window and (not window[0].awaited or len(window) > LOOK_AHEAD):
            yield window.popleft()
    yield from window


def _is_taken(window: Iterable[AnsweredMessage], message: SessionMessage) -> bool:
    """Return whether the result belongs to a call in the window; then it is stored there."""
    result = message.tool_result
    if result is None or message.role != "tool" or message.tool_calls or message.thinking:
        return False
    call_id = result.tool_call_id
    entry = next((each for each in window if call_id in each.unanswered), None)
    if entry is None:
        return False
    entry.results[call_id] = message
    entry.unanswered.discard(call_id)
    entry.awaited.discard(call_id)
    return True


class MessageLayout:
    """Lays out the messages of one session, and remembers what need not be repeated."""

    def __init__(
        self,
        agent: str,
        layout: Layout,
        *,
        cwd: str | None = None,
        models: Sequence[str] = (),
        day: str = "",
    ) -> None:
        """Create the layout; `models` are those of the header, `day` is the one shown last."""
        self.day = day
        self._agent = one_line(agent) or "agent"
        self._cwd = cwd
        self._layout = layout
        self._model = models[0] if len(models) == 1 else None
        self._minute = self._speaker = ""
        self._is_folded = False  # the last line is a folded text: another one may follow at once

    def lines(self, messages: Iterable[SessionMessage]) -> Iterator[Line]:
        """Yield the lines of all messages; each begins with the blank line before it."""
        for entry in with_results(messages):
            yield from self._entry(entry)

    def message(self, number: int, message: SessionMessage) -> Iterator[Line]:
        """Yield the lines of one message; the results of its calls are messages of their own."""
        return self._entry(AnsweredMessage(number, message, {}, set(), set()))

    def _entry(self, entry: AnsweredMessage) -> Iterator[Line]:
        message = entry.message
        body = self._body(entry)
        first = next(body, None)
        if first is None:
            return
        day, minute = self._clock(message.timestamp)
        if day and day != self.day:
            yield BLANK
            yield rule(day, self._layout)
            self.day, self._speaker, self._is_folded = day, "", False
        if _is_injected(message) and not self._layout.full:
            if not self._is_folded:
                yield BLANK
            self._is_folded, self._speaker = True, ""
        else:
            yield from self._heading(entry, minute)
            self._is_folded = False
        yield first
        yield from body

    def _heading(self, entry: AnsweredMessage, minute: str) -> Iterator[Line]:
        message = entry.message
        if message.compaction:
            yield BLANK
            yield rule("history compacted", self._layout)
        speaker, style = self._speaker_of(message)
        only_calls = not has_text(message.content) and not has_text(message.thinking)
        if only_calls and (speaker, minute) == (self._speaker, self._minute):
            return
        self._speaker, self._minute = speaker, minute
        notes = [part for part in (minute, f"#{entry.number}", *self._details(message)) if part]
        if not message.compaction:
            yield BLANK
        room = self._layout.width - cells(speaker) - 2
        yield ((speaker, style), (f"  {cut('  '.join(notes), room)}", "faint"))

    def _speaker_of(self, message: SessionMessage) -> tuple[str, Style]:
        if message.compaction:
            return "summary", "label"
        if is_error_notice(message):
            return self._agent, "agent"
        if message.role not in ("user", "assistant"):
            return message.role, "label"
        if message.synthetic:
            return "injected", "label"
        return ("user", "user") if message.role == "user" else (self._agent, "agent")

    def _details(self, message: SessionMessage) -> Iterator[str]:
        """Yield the model if it changed; with `full` also usage and cost."""
        if message.model and not message.synthetic and message.model != self._model:
            self._model = message.model
            yield one_line(message.model)
        if not self._layout.full:
            return
        usage = message.token_usage
        if usage is not None:
            cached = f", {usage.cached_tokens:,} cached" if usage.cached_tokens else ""
            yield f"{usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out"
        if message.cost is not None:
            yield cost_text(message.cost)

    def _body(self, entry: AnsweredMessage) -> Iterator[Line]:
        message, layout = entry.message, self._layout
        is_folded = _is_injected(message) and not layout.full
        if has_text(message.thinking) and not is_folded:
            yield from folded_prose(
                message.thinking or "",
                layout,
                label="thinking: ",
                style="thought",
                head=_THOUGHT_ROWS,
            )
        if message.role == "tool":
            name = message.tool_result.tool_name if message.tool_result else "tool"
            yield from result_lines(name, outcome_of_result(message), layout)
        else:
            yield from self._content(message)
            yield from image_lines(message.images, indent=INDENT)
        for call in message.tool_calls:
            result = entry.results.pop(call.tool_call_id, None)
            yield from call_lines(call, outcome_of(call, result), layout, self._cwd)

    def _content(self, message: SessionMessage) -> Iterator[Line]:
        text, layout = message.content, self._layout
        if not has_text(text):
            return
        if is_error_notice(message):
            yield from block(
                error_text(text), layout, indent=INDENT, style="failed", head=_ERROR_ROWS
            )
        elif message.compaction:
            yield from folded_prose(text, layout, indent=INDENT, style="faint", head=_SUMMARY_ROWS)
        elif not _is_injected(message):
            yield from prose(text, layout)
        elif layout.full:
            yield from block(text, layout, indent=INDENT, style="faint", head=0)
        else:
            yield _folded(message, layout)

    def _clock(self, moment: datetime | None) -> tuple[str, str]:
        """Return the day and the minute of a moment in the reader's time zone."""
        if moment is None:
            return "", ""
        text = local_time(moment, self._layout)
        return text[:10], text[11:]


class ChangeLayout:
    """Lays out the messages of a followed session and of its sub-agents, as they arrive."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._sessions: dict[str, MessageLayout] = {}
        self._last = ""

    def lines(self, change: SessionChange) -> Iterator[Line]:
        """Yield the message of a change, after a line with the session if another one spoke."""
        if change.message is None or change.number is None:
            return
        name = change.unified_id
        if self._last != name and (self._last or change.parent is not None):
            kind = "session" if change.parent is None else "sub-agent"
            yield BLANK
            yield rule(f"{kind} {one_line(change.session_id)}", self._layout, "heading")
        self._last = name
        session = self._sessions.setdefault(name, MessageLayout(change.agent, self._layout))
        if change.kind == "updated-message":
            yield BLANK
            yield ((f"message #{change.number} again:", "faint"),)
        yield from session.message(change.number, change.message)


def _is_injected(message: SessionMessage) -> bool:
    """Return whether a text is folded to one line: neither a person nor a model wrote it."""
    is_foreign = message.synthetic or message.role == "system"
    return is_foreign and not message.compaction and not is_error_notice(message)


def is_error_notice(message: SessionMessage) -> bool:
    """Return whether the agent reports, in place of an answer, that a model call failed."""
    label = None if message.compaction else label_of(message)
    return label is not None and label.is_error


def error_text(text: str) -> str:
    """Return the text of an error notice after a word that says what it is."""
    match = _API_ERROR.match(text)
    return f"error: {text}" if match is None else f"API error: {text[match.end() :]}"


def _folded(message: SessionMessage, layout: Layout) -> Line:
    label = "system: " if message.role == "system" else "injected: "
    count = count_lines(message.content)
    size = f" ({count:,} lines)" if count > 1 else ""
    row = one_row(message.content, layout.room(len(label) + len(size)))
    style: Style = "folded" if size else "faint"
    return ((f"{label}{row}{size}", style),)


def rule(text: str, layout: Layout, style: Style = "faint") -> Line:
    """Return a line across the page that begins with a text."""
    head = f"── {one_row(text, layout.room(4))} "
    return ((f"{head}{'─' * (min(layout.width, _RULE_WIDTH) - cells(head))}".rstrip(), style),)


def local_time(moment: datetime, layout: Layout) -> str:
    """Return a moment in the reader's time zone, to the minute."""
    with suppress(OverflowError, ValueError, OSError):  # out of the range of dates in that zone
        moment = layout.to_local(moment)
    return f"{moment:%Y-%m-%d %H:%M}"
