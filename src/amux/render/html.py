"""A session as one self-contained HTML page, dark or light, without scripts or other files.

All content is passed through `escaped`; a content security policy in the page forbids what escaping
already prevents. The page is written in one pass: the number of messages is known only at the end,
so it is written there and moved to the top by the style sheet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any, Final, cast

from amux.model.cost import CostRecord
from amux.model.message import Role, SessionMessage, SessionToolCall, TokenUsage
from amux.model.session import Session
from amux.render.content import (
    DEFAULT_TITLE,
    UNKNOWN,
    all_problems,
    cost_text,
    cut,
    described,
    is_uncalled,
    label_of,
    one_line,
    result_text,
    session_cost_line,
    showable,
    time_text,
    value_text,
    visible,
    with_unanswered,
)
from amux.render.html_style import STYLE

SHORT_ID_LENGTH: Final = 8
POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)

_LABELS: Final[dict[Role, str]] = {
    "user": "User",
    "assistant": "Assistant",
    "system": "System",
    "tool": "Tool result",
}


def render_html(header: Session, messages: Iterable[SessionMessage]) -> Iterator[str]:
    """Yield the page piece by piece."""
    heading = one_line(header.title) or DEFAULT_TITLE
    yield _head(heading)
    yield _masthead(header, heading)
    yield "<main>\n"
    count = 0
    for html in _messages(messages, anchor="m"):
        count += 1
        yield html
    for number, child in enumerate(header.children, start=1):
        yield from _child(child, str(number))
    yield from _problems(header)
    yield "</main>\n"
    yield f'<p class="count">{count:,} message{"" if count == 1 else "s"}</p>\n'
    yield _cost_summary(header)
    yield "</body>\n</html>\n"


def _head(heading: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escaped(heading)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
    )


def _masthead(session: Session, heading: str) -> str:
    return (
        f'<header class="masthead">\n<p class="eyebrow">{escaped(one_line(session.agent))} '
        f"{session.kind}</p>\n<h1>{escaped(heading)}</h1>\n{_facts(session)}</header>\n"
    )


def _facts(session: Session) -> str:
    models = session.models or ((session.model,) if session.model else ())
    return _fact_list(
        ("Session", session.session_id[:SHORT_ID_LENGTH]),
        ("Created", time_text(session.created_at)),
        ("Updated", time_text(session.updated_at)),
        ("Model", ", ".join(models) or UNKNOWN),
        ("Turns", f"{session.turn_count:,}"),
        ("Cost", session_cost_line(session)),
        ("Tags", ", ".join(session.tags)),
        ("Starred", "yes" if session.starred else ""),
        ("Archived", "yes" if session.archived else ""),
        ("Forked from", session.forked_from or ""),
        ("Parent", session.parent or ""),
        wide=(
            ("Directory", session.cwd or ""),
            ("Full id", session.unified_id),
            *((f"Note {note.number}", note.text) for note in session.notes),
        ),
    )


def _fact_list(*facts: tuple[str, str], wide: tuple[tuple[str, str], ...] = ()) -> str:
    cells = [
        f"<div{attribute}><dt>{name}</dt><dd>{escaped(one_line(value))}</dd></div>\n"
        for attribute, group in (("", facts), (' class="wide"', wide))
        for name, value in group
        if value
    ]
    return f'<dl class="facts">\n{"".join(cells)}</dl>\n'


def _messages(messages: Iterable[SessionMessage], *, anchor: str) -> Iterator[str]:
    for number, (message, unanswered) in enumerate(with_unanswered(messages), start=1):
        id = f"{anchor}{number}"
        yield (
            f'<article class="message {_classes(message)}" id="{id}">\n'
            f"<header>{_notes(message)}"
            f'<a class="anchor" href="#{id}">{number}</a></header>\n'
            f"{''.join(_blocks(message, unanswered))}</article>\n"
        )


def _classes(message: SessionMessage) -> str:
    kind = "tool-result" if message.role == "tool" else message.role
    name = "compaction" if message.compaction else kind
    label = label_of(message)
    synthetic = "" if label is None else " synthetic"
    is_error = _failed(message) or (label is not None and label.is_error)
    return f"{name}{synthetic}{' error' if is_error else ''}"


def _failed(message: SessionMessage) -> bool:
    return message.tool_result is not None and message.tool_result.is_error is True


def _notes(message: SessionMessage) -> str:
    """Return the head of a message: role, badges, time, model and usage."""
    label = "Compaction summary" if message.compaction else _LABELS[message.role]
    parts = [f'<span class="role">{label}</span>']
    if message.tool_result is not None:
        parts.append(
            f'<span class="name">{escaped(one_line(message.tool_result.tool_name))}</span>'
        )
        parts.append(f"<span>{escaped(one_line(message.tool_result.tool_call_id))}</span>")
    if (mark := label_of(message)) is not None:
        parts.append(f'<span class="badge">{mark.name}</span>')
    if _failed(message):
        parts.append('<span class="badge">failed</span>')
    if message.timestamp is not None:
        parts.append(f"<time>{time_text(message.timestamp)}</time>")
    if message.model:
        parts.append(f"<span>{escaped(one_line(message.model))}</span>")
    if usage := _usage_line(message.token_usage, message.cost):
        parts.append(f'<span class="usage">{escaped(usage)}</span>')
    return "".join(parts)


def _usage_line(usage: TokenUsage | None, cost: CostRecord | None) -> str:
    parts: list[str] = []
    if usage is not None:
        counts = (
            (usage.input_tokens, "in"),
            (usage.cached_tokens, "cached"),
            (usage.cache_write_tokens, "cache written"),
            (usage.output_tokens, "out"),
        )
        parts += [f"{count:,} {name}" for count, name in counts if count is not None]
    if cost is not None:
        parts.append(cost_text(cost))
    return " · ".join(parts)


def _blocks(message: SessionMessage, unanswered: frozenset[str]) -> Iterator[str]:
    if message.thinking:
        text = text_block(message.thinking)
        yield f'<details class="thinking"><summary>Thinking</summary>{text}</details>\n'
    if message.role == "tool":
        yield result_block(result_text(message))
    elif message.content.strip():
        yield f"{text_block(message.content)}\n"
    for number, image in enumerate(message.images, start=1):
        yield image_block(image, number)
    for call in message.tool_calls:
        yield call_block(call, show_output=call.tool_call_id in unanswered)


def _child(child: Session, number: str) -> Iterator[str]:
    title = one_line(child.title) or DEFAULT_TITLE
    yield f'<section class="child">\n<h2>Sub-agent {number}: {escaped(title)}</h2>\n'
    yield _facts(child)
    yield from _messages(child.messages, anchor=f"s{number}-m")
    for position, grandchild in enumerate(child.children, start=1):
        yield from _child(grandchild, f"{number}.{position}")
    yield "</section>\n"


def _problems(session: Session) -> Iterator[str]:
    problems = [
        f"<li>{escaped(one_line(str(problem)))}</li>\n" for problem in all_problems(session)
    ]
    if problems:
        yield '<section class="problems">\n<h2>Problems</h2>\n<ul>\n'
        yield from problems
        yield "</ul>\n</section>\n"


def _cost_summary(session: Session) -> str:
    cost = session.cost
    facts = [("Total", session_cost_line(session))]
    if cost is not None and not is_uncalled(session):
        counts = (
            ("Input tokens", cost.input_tokens),
            ("Output tokens", cost.output_tokens),
            ("Thinking, part of the output", cost.thinking_tokens),
            ("Read from the cache", cost.cached_tokens),
            ("Written to the cache", cost.cache_write_tokens),
        )
        facts += [(name, f"{count:,}") for name, count in counts if count is not None]
        facts.append(("Incomplete", ", ".join(cost.incomplete)))
    return f'<footer class="cost">\n<h2>Cost</h2>\n{_fact_list(*facts)}</footer>\n'


# The parts of a message. Every function returns escaped HTML.


FOLD_LINES: Final = 16
FOLD_CHARACTERS: Final = 2_000
_SUMMARY_LENGTH: Final = 100

_FENCED: Final = re.compile(
    r"^ {0,3}(`{3,}|~{3,})[^`\n]*\n(.*?)(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_HEADING: Final = re.compile(r"^#{1,6}[ \t]+(.+)$\n*", re.MULTILINE)
_CODE: Final = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_STRONG: Final = re.compile(r"\*\*(?=\S)([^*\n]+)(?<=\S)\*\*")


def escaped(text: str) -> str:
    """Return content escaped for any position in the page, attributes included."""
    return escape(visible(text), quote=True)


def text_block(text: str) -> str:
    """Return a prompt, answer or thinking as HTML with code, headings and strong text."""
    text = visible(text).strip("\n")
    parts: list[str] = []
    position = 0
    for block in _FENCED.finditer(text):
        parts += (
            _prose(text[position : block.start()]),
            _preformatted(block.group(2).removesuffix("\n")),
        )
        position = block.end()
    parts.append(_prose(text[position:]))
    return f'<div class="text">{"".join(parts)}</div>'


def _prose(text: str) -> str:
    """Return escaped text with markup. Escaping comes first: only the patterns below add tags."""
    pieces = _CODE.split(escape(text.strip("\n"), quote=True))
    html = "".join(
        f"<code>{piece}</code>" if odd % 2 else _STRONG.sub(r"<strong>\1</strong>", piece)
        for odd, piece in enumerate(pieces)
    )
    return _HEADING.sub(r"<h4>\1</h4>", html)


def _preformatted(text: str) -> str:
    # HTML drops a line feed directly after the tag, so an extra one is inserted.
    return f"<pre>\n{escaped(text)}</pre>"


def output_block(text: str) -> str:
    """Return an argument or the output of a call; a long one is collapsed."""
    text = text.strip("\n")
    if not text.strip():
        return '<p class="missing">no output</p>\n'
    if text.count("\n") < FOLD_LINES and len(text) <= FOLD_CHARACTERS:
        return f"{_preformatted(text)}\n"
    first = cut(one_line(text.lstrip().partition("\n")[0]), _SUMMARY_LENGTH)
    return (
        f'<details class="fold"><summary>{_size(text)}: <code>{escaped(first)}</code></summary>'
        f"{_preformatted(text)}</details>\n"
    )


def result_block(text: str) -> str:
    """Return the output of a tool, which the reader can collapse; a long one is collapsed."""
    block = output_block(text)
    if not block.startswith("<pre>"):
        return block
    size = _size(text.strip("\n"))
    return f'<details class="output" open><summary>{size}</summary>{block.rstrip()}</details>\n'


def _size(text: str) -> str:
    lines = text.count("\n") + 1
    return f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"


def call_block(call: SessionToolCall, *, show_output: bool) -> str:
    """Return a tool call with its arguments, and with its output if `show_output` is set."""
    took = f"<span>{call.duration_ms:,} ms</span>" if call.duration_ms is not None else ""
    failed = '<span class="badge">failed</span>' if call.is_error else ""
    output = result_block(value_text(call.output)) if show_output else ""
    return (
        f'<details class="tool-call{" error" if call.is_error else ""}" open>'
        f'<summary><span class="role">Tool call</span>'
        f'<span class="name">{escaped(one_line(call.tool_name))}</span>'
        f"<span>{escaped(one_line(call.tool_call_id))}</span>{took}{failed}</summary>\n"
        f"{_arguments(call.input)}{output}</details>\n"
    )


def _arguments(value: Any) -> str:
    """Return the input of a tool, argument by argument so that scripts and patches keep lines."""
    if not isinstance(value, Mapping):
        text = value_text(value)
        return output_block(text) if text else ""
    arguments = cast("Mapping[str, Any]", value)
    return "".join(
        f'<p class="argument">{escaped(one_line(name))}</p>'
        + output_block(argument if isinstance(argument, str) else value_text(argument) or "null")
        for name, argument in arguments.items()
    )


def image_block(image: str, number: int) -> str:
    """Return a pasted image inline if it can be shown, else its description."""
    if showable(image):
        return f'<img class="image" alt="Image {number}" src="{escaped(image)}">\n'
    return f'<p class="missing">Image {number}: {escaped(described(image))}, not shown</p>\n'
