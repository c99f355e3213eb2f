"""Session content as Markdown and HTML show it: text, figures, images and tool output.

Session content is hostile: it may contain terminal escapes, direction overrides and lone
surrogates. `visible` replaces every such character by a symbol, and both formats pass all content
through it. A pasted image is shown only if it has one of four formats that hold no scripts and no
references, and if its bytes begin with the signature of that format; anything else (SVG, a remote
address, a wrong media type) is described in words.

Tool output is recorded twice, in the call and usually in another message, but shown once: readers
want it where it occurred, so a call shows its output only if there is no such message near it.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from amux.model.cost import CostRecord, CostSource
from amux.model.incomplete import (
    ABOUT,
    AT_LEAST,
    UNPRICED_MODEL,
    USAGE_NOT_RECORDED,
    bound_of,
    round_within,
)
from amux.model.message import SessionMessage
from amux.model.problems import Problem
from amux.model.session import Session
from amux.model.usage import NANO
from amux.render.json import to_json_text

UNKNOWN: Final = "?"
NO_CALLS: Final = "no calls"
DEFAULT_TITLE: Final = "Agent Session"
_EPOCH: Final = datetime.fromtimestamp(0, UTC)

_ACTING: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and line feed, DEL, C1
    "\u202a-\u202e\u2066-\u2069"  # direction overrides, embeddings, isolates
    "\u2028\u2029\ufeff\ufff9-\ufffb"  # line separators, byte order mark, annotations
    "\ud800-\udfff]"  # halves of surrogate pairs
)
_SURROGATES: Final = range(0xD800, 0xE000)
_CENT: Final = 0.01
SOURCES: Final[dict[CostSource, str]] = {
    "native": "recorded by the agent",
    "run-index": "recorded in the run index",
    "estimate": "estimate",
}
_UNKNOWN_BECAUSE: Final = {
    UNPRICED_MODEL: "no price is known",
    USAGE_NOT_RECORDED: "the agent recorded no usage",
}


def visible(text: str) -> str:
    """Return a text with every control character replaced by a symbol for it.

    CRLF becomes a line feed; tabs and line feeds stay.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return _ACTING.sub(_symbol, text)


def _symbol(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:  # noqa: PLR2004 - the control pictures mirror the first 32 characters
        return chr(0x2400 + code)
    if code == 0x7F:  # noqa: PLR2004 - DEL
        return "\u2421"
    return "\ufffd" if code in _SURROGATES else f"\u27e8U+{code:04X}\u27e9"


def one_line(text: str) -> str:
    """Return a text on one line: control characters visible, white space folded."""
    return " ".join(visible(text).split())


def cut(text: str, length: int) -> str:
    """Return at most `length` characters of a text; a cut is shown by an ellipsis."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def value_text(value: Any) -> str:
    """Return the input or output of a tool as text: strings as they are, else indented JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else to_json_text(value, indent=2)


def time_text(moment: datetime) -> str:
    """Return a moment in UTC, to the second; `?` for the epoch, which means an unknown time."""
    if moment == _EPOCH:
        return UNKNOWN
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def cost_text(cost: CostRecord | None) -> str:
    """Return a cost as `$1.20`, or after `>=`, `<=` or `~` if incomplete; `?` if it is unknown."""
    if cost is None or (cost.total_usd == 0 and bound_of(cost.incomplete) in {AT_LEAST, ABOUT}):
        return UNKNOWN
    bound, amount = bound_of(cost.incomplete), cost.total_usd
    digits = 2 if amount == 0 or amount >= 1 else 4 if amount >= _CENT else 6
    if not bound or amount == 0:
        return f"${amount:,.{digits}f}"
    nano = round_within(round(amount * NANO), NANO // 10**digits, bound)
    return f"{bound} ${nano / NANO:,.{digits}f}"


def cost_line(cost: CostRecord) -> str:
    """Return a cost followed by its source in parentheses, or by why it is unknown."""
    text = cost_text(cost)
    if text == UNKNOWN:
        return f"{text} ({', '.join(map(_in_words, cost.incomplete))})"
    return f"{text} ({SOURCES[cost.source]})" if cost.source else text


def session_cost_text(session: Session) -> str:
    """Return the cost of a session like `cost_text`; `no calls` if no model was called."""
    return NO_CALLS if is_uncalled(session) else cost_text(session.cost)


def session_cost_line(session: Session) -> str:
    """Return the cost of a session like `cost_line`; `no calls` if no model was called."""
    if is_uncalled(session):
        return NO_CALLS
    if session.cost is not None:
        return cost_line(session.cost)
    return f"{UNKNOWN} ({', '.join(map(_in_words, session.unrecorded))})"


def is_uncalled(session: Session) -> bool:
    """Return whether no model was called; an agent may record that this cost nothing."""
    cost = session.cost
    if cost is None:
        return not session.unrecorded
    is_free = cost.total_usd == cost.input_tokens == cost.output_tokens == 0
    return is_free and session.model is None and not cost.incomplete


def _in_words(reason: str) -> str:
    return _UNKNOWN_BECAUSE.get(reason, reason)


_DATA_URL: Final = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,([A-Za-z0-9+/]+={0,2})")
_SIGNATURES: Final = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
}
_MEDIA_TYPE: Final = re.compile(r"data:([a-z]+/[a-z0-9.+-]+)")
_QUANTUM: Final = 4  # base64 comes in groups of four characters
_HEAD: Final = 8 * _QUANTUM  # enough characters to hold every signature


def showable(image: str) -> bool:
    """Return whether a data URL holds an image in one of the four formats."""
    match = _DATA_URL.fullmatch(image)
    if match is None or len(match.group(2)) % _QUANTUM:
        return False
    media_type, data = match.groups()
    return _SIGNATURES[media_type].match(b64decode(data[:_HEAD])) is not None


def described(image: str) -> str:
    """Return a description of an image: its media type and approximate size."""
    match = _MEDIA_TYPE.match(image)
    if match is None:
        return "not embedded in the session"
    size = len(image.partition(",")[2]) * 3 // 4
    return f"{match.group(1)}, about {max(1, size // 1000):,} kB"


LOOK_AHEAD: Final = 64
"""The maximum number of messages that are buffered while the result of a call is awaited. As many
calls are remembered, and results whose calls may follow."""


def with_unanswered(
    messages: Iterable[SessionMessage],
) -> Iterator[tuple[SessionMessage, frozenset[str]]]:
    """Yield each message with the ids of its calls whose output no other message repeats."""
    buffer: deque[tuple[SessionMessage, set[str]]] = deque()
    called: deque[str] = deque(maxlen=LOOK_AHEAD)
    early: deque[str] = deque(maxlen=LOOK_AHEAD)  # results that came before their calls
    for message in messages:
        if message.tool_result is not None:
            result_id = message.tool_result.tool_call_id
            if result_id not in called:
                early.append(result_id)
            for _, waiting in buffer:
                waiting.discard(result_id)
        with_output = {call.tool_call_id for call in message.tool_calls if call.output is not None}
        buffer.append((message, with_output.difference(early)))
        called.extend(call.tool_call_id for call in message.tool_calls)
        while buffer and (not buffer[0][1] or len(buffer) > LOOK_AHEAD):
            yield _released(buffer)
    while buffer:
        yield _released(buffer)


def _released(
    buffer: deque[tuple[SessionMessage, set[str]]],
) -> tuple[SessionMessage, frozenset[str]]:
    message, unanswered = buffer.popleft()
    return message, frozenset(unanswered)


def result_text(message: SessionMessage) -> str:
    """Return the text of a tool message, or the output itself if it has no text."""
    if message.content.strip() or message.tool_result is None:
        return message.content
    return value_text(message.tool_result.output)


class MessageLabel(NamedTuple):
    """A mark of a message that neither a person nor a model wrote, and what it means."""

    name: str
    meaning: str
    is_error: bool = False


_INJECTED: Final = MessageLabel("injected", "nobody typed this and no model wrote it")
_NOTICE: Final = MessageLabel("notice", "the agent wrote this, no model did")
_API_ERROR: Final = MessageLabel(
    "API error", "the agent reports that a model call failed", is_error=True
)
_FAILURE: Final = re.compile(
    r"error|fail|reject|abort|overload|denied|invalid|unauthorized|refus|exceed|time[d-]? ?out"
    r"|limit|too (?:long|low)|/login|(?:^|\s)[45]\d\d\b",
    re.IGNORECASE,
)
_SYSTEM_FAILURE: Final = re.compile(r"\W?API error\b\s*[:(\]]", re.IGNORECASE)
_OPENING: Final = 200  # characters of a notice that say what it is about


def label_of(message: SessionMessage) -> MessageLabel | None:
    """Return the label of a synthetic message; None for what a person, a model or a tool wrote.

    A synthetic message with the role of the assistant is a notice of the agent, mostly an error in
    place of an answer. One with any other role is a text that the agent injected, unless it is an
    error that the agent reports in a message of the system.
    """
    if not message.synthetic:
        return None
    if message.role == "system" and _SYSTEM_FAILURE.match(message.content):
        return _API_ERROR
    if message.role != "assistant":
        return _INJECTED
    return _API_ERROR if _FAILURE.search(message.content, 0, _OPENING) else _NOTICE


def all_problems(session: Session) -> Iterator[Problem]:
    """Yield the problems of a session and of its sub-agents."""
    yield from session.problems
    for child in session.children:
        yield from all_problems(child)
