"""Foreign text inside a Markdown document: readable, but unable to change the document's structure.

Prompts and answers are Markdown themselves and stay so, with these exceptions:

- headings move three levels down (levels 1 to 3 are ours); underlined ones become plain text;
- a fenced block starts at the margin and is closed when the text forgets to close it. At the margin
  a fence cannot belong to a list or a quotation, so this module and every CommonMark parser agree
  on where code begins and ends;
- outside code, no `<` opens a tag and no image is loaded;
- control characters become visible symbols.

Inline code is left alone only where its extent is beyond doubt: see `_certain_spans`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from amux.render.content import one_line, visible

_OPENING: Final = re.compile(r" {0,3}(?=(?:`{3,}[^`]*|~.*)$)(`{3,}|~{3,})(.*)")
_CLOSING: Final = re.compile(r" {0,3}(`+|~+)[ \t]*")
_HEADING: Final = re.compile(
    r"((?: {0,3}(?:[-+*>]|\d{1,9}[.)])[ \t]*)*)"  # it may stand in a quotation or a list
    r" {0,3}(#{1,6})(?=[ \t]|$)"
)
_UNDERLINE: Final = re.compile(r" {0,3}(?:=+|-+)[ \t]*")
_TAG: Final = re.compile(r"<(?=[A-Za-z/!?])")
_ACTIVE: Final = re.compile(r"[<>&|\\]")
_BACKTICKS: Final = re.compile(r"`+")
_PUNCTUATION: Final = re.compile(r"([\\`*_{}\[\]<>#&~|!])")

_OUR_LEVELS: Final = 3
_DEEPEST_LEVEL: Final = 6
_SHORTEST_FENCE: Final = 3


def prose(text: str) -> str:
    """A text that may be Markdown, as a block of its own."""
    return "\n".join(_blocks(visible(text).split("\n")))


def hidden_prose(text: str) -> str:
    """The same for the inside of a `<details>` element: not even code can spell its end."""
    return re.sub(r"<(?=/?details)", "&lt;", prose(text), flags=re.IGNORECASE)


def fenced(text: str, language: str = "") -> str:
    """A text as a code block whose fence is longer than any run of backticks inside."""
    body = visible(text)
    fence = "`" * max(_SHORTEST_FENCE, _longest_run(body) + 1)
    return f"{fence}{language}\n{body.removesuffix(chr(10))}\n{fence}"


def code(text: str) -> str:
    """A short text as inline code on one line."""
    body = one_line(text) or " "
    ticks = "`" * (_longest_run(body) + 1)
    pad = " " if body.startswith("`") or body.endswith("`") else ""
    return f"{ticks}{pad}{body}{pad}{ticks}"


def inline(text: str) -> str:
    """A short text on one line that shows exactly its characters."""
    return _PUNCTUATION.sub(r"\\\1", one_line(text))


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)


def _blocks(lines: Iterable[str]) -> Iterator[str]:
    """Escape line by line; lines between blank lines and fences are judged together."""
    chunk: list[str] = []
    fence = ""
    for line in lines:
        if fence:
            yield line
            if _closes(line, fence):
                fence = ""
        elif opening := _OPENING.fullmatch(line):
            yield from _escaped(chunk)
            chunk = []
            fence, info = opening.groups()
            # Some parsers see the head of a table before they see a fence.
            yield fence + _ACTIVE.sub(" ", info)
        elif line.strip(" \t"):
            chunk.append(line)
        else:
            yield from _escaped(chunk)
            chunk = []
            yield line
    yield from _escaped(chunk)
    if fence:
        yield fence


def _closes(line: str, fence: str) -> bool:
    closing = _CLOSING.fullmatch(line)
    return closing is not None and closing.group(1).startswith(fence)


def _escaped(chunk: list[str]) -> Iterator[str]:
    spans = [_certain_spans(line) for line in chunk]
    certain = None not in spans
    for number, line in enumerate(chunk):
        if number > 0 and _UNDERLINE.fullmatch(line):
            yield f"\\{line.lstrip(' ')}"
        else:
            yield _demoted(_defused(line, (spans[number] or []) if certain else []))


def _certain_spans(line: str) -> list[tuple[int, int]] | None:
    """Where inline code begins and ends in a line; None if that depends on other lines.

    If in every line of a paragraph each run of backticks meets its equal in the same line, no
    other reading is possible. Escaped backticks and the cells of a table would allow another one.
    """
    if "\\`" in line or ("|" in line and "`" in line):
        return None
    spans: list[tuple[int, int]] = []
    opening: re.Match[str] | None = None
    for run in _BACKTICKS.finditer(line):
        if opening is None:
            opening = run
        elif run.group() == opening.group():
            spans.append((opening.start(), run.end()))
            opening = None
    return None if opening else spans


def _defused(line: str, spans: list[tuple[int, int]]) -> str:
    """The line without tags and images outside the given spans."""
    parts: list[str] = []
    position = 0
    for start, end in spans:
        parts += _defused_text(line[position:start]), line[start:end]
        position = end
    parts.append(_defused_text(line[position:]))
    return "".join(parts)


def _defused_text(text: str) -> str:
    # Entities, not backslashes: a backslash that stands before them in the text cannot undo them.
    return _TAG.sub("&lt;", text).replace("![", "&#33;[")


def _demoted(line: str) -> str:
    heading = _HEADING.match(line)
    if heading is None:
        return line
    containers, marks = heading.groups()
    level = min(_DEEPEST_LEVEL, len(marks) + _OUR_LEVELS)
    return containers + "#" * level + line[heading.end() :]
