"""The parts of a message as HTML: text, thinking, tool calls, output, images.

Every function returns finished HTML, and `escaped` is the only way for content to get into it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any, Final, cast

from amux.model.message import SessionToolCall
from amux.render.images import described, showable
from amux.render.plain import cut, one_line, value_text, visible

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
    """Content for any place in the page, attributes included."""
    return escape(visible(text), quote=True)


def text_block(text: str) -> str:
    """A prompt, an answer or a thought; code, headings and strong words are set as such."""
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
    """Escape first: what is marked up afterwards is only what the patterns put there."""
    pieces = _CODE.split(escape(text.strip("\n"), quote=True))
    html = "".join(
        f"<code>{piece}</code>" if odd % 2 else _STRONG.sub(r"<strong>\1</strong>", piece)
        for odd, piece in enumerate(pieces)
    )
    return _HEADING.sub(r"<h4>\1</h4>", html)


def _preformatted(text: str) -> str:
    # A line feed directly after the tag would be swallowed; one of ours takes its place.
    return f"<pre>\n{escaped(text)}</pre>"


def thinking_block(text: str) -> str:
    """The model's reasoning, closed until someone wants to read it."""
    return f'<details class="thinking"><summary>Thinking</summary>{text_block(text)}</details>\n'


def output_block(text: str) -> str:
    """What a tool gave back; long output is folded."""
    text = text.strip("\n")
    lines = text.count("\n") + 1
    if not text.strip():
        return '<p class="missing">no output</p>\n'
    if lines <= FOLD_LINES and len(text) <= FOLD_CHARACTERS:
        return f"{_preformatted(text)}\n"
    first = cut(one_line(text.lstrip().partition("\n")[0]), _SUMMARY_LENGTH)
    size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
    return (
        f'<details class="fold"><summary>{size}: <code>{escaped(first)}</code></summary>'
        f"{_preformatted(text)}</details>\n"
    )


def call_block(call: SessionToolCall, *, show_output: bool) -> str:
    """A tool call with its arguments, and with its output if no message of its own has it."""
    took = f"<span>{call.duration_ms:,} ms</span>" if call.duration_ms is not None else ""
    failed = '<span class="badge">failed</span>' if call.is_error else ""
    output = output_block(value_text(call.output)) if show_output else ""
    return (
        f'<section class="tool-call{" error" if call.is_error else ""}">'
        f'<header><span class="role">Tool call</span>'
        f'<span class="name">{escaped(one_line(call.tool_name))}</span>'
        f"<span>{escaped(one_line(call.tool_call_id))}</span>{took}{failed}</header>\n"
        f"{_arguments(call.input)}{output}</section>\n"
    )


def _arguments(value: Any) -> str:
    """A mapping argument by argument, so that a script or a patch keeps its lines."""
    if not isinstance(value, Mapping):
        text = value_text(value)
        return output_block(text) if text else ""
    arguments = cast("Mapping[str, Any]", value)
    return "".join(
        f'<p class="argument">{escaped(one_line(name))}</p>{_argument(arguments[name])}'
        for name in arguments
    )


def _argument(value: Any) -> str:
    return output_block(value if isinstance(value, str) else value_text(value) or "null")


def image_block(image: str, number: int) -> str:
    """A pasted image, inlined if it is surely one; else its description."""
    if showable(image):
        return f'<img class="image" alt="Image {number}" src="{escaped(image)}">\n'
    return f'<p class="missing">Image {number}: {escaped(described(image))}, not shown</p>\n'
