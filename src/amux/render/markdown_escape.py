"""Embeds foreign text in a Markdown document so that it cannot change the document's structure.

Prompts and answers are Markdown themselves and stay so, with these exceptions:

- headings move three levels down (levels 1 to 3 are ours); underlined headings become plain text;
- a fenced block starts at the margin and is closed if the text does not close it. At the margin a
  fence cannot belong to a list or a quotation, so this module and every CommonMark parser agree on
  where code begins and ends;
- outside code, no `<` opens a tag and no image is loaded;
- control characters become visible symbols.

Inline code stays unescaped only where its extent is unambiguous: see `_certain_spans`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from amux.render.content import one_line, visible

_OPENING: Final = re.compile(r" {0,3}(?=(?:`{3,}[^`]*|~.*)$)(`{3,}|~{3,})(.*)")
_CLOSING: Final = re.compile(r" {0,3}(`+|~+)[ \t]*")
_HEADING: Final = re.compile(
    r"((?: {0,3}(?:[-+*>]|\d{1,9}[.)])[ \t]*)*)"  # a heading in a quotation or a list
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
    """Return a text that may be Markdown as a separate block."""
    return "\n".join(_blocks(visible(text).split("\n")))


def hidden_prose(text: str) -> str:
    """Return a text as a block for a `<details>` element, which even code in it cannot close."""
    return re.sub(r"<(?=/?details)", "&lt;", prose(text), flags=re.IGNORECASE)


def fenced(text: str, language: str = "") -> str:
    """Return a text as a code block whose fence is longer than any run of backticks inside."""
    body = visible(text)
    fence = "`" * max(_SHORTEST_FENCE, _longest_run(body) + 1)
    return f"{fence}{language}\n{body.removesuffix(chr(10))}\n{fence}"


def code(text: str) -> str:
    """Return a short text as inline code on one line."""
    body = one_line(text) or " "
    ticks = "`" * (_longest_run(body) + 1)
    pad = " " if body.startswith("`") or body.endswith("`") else ""
    return f"{ticks}{pad}{body}{pad}{ticks}"


def inline(text: str) -> str:
    """Return a short text on one line with all Markdown punctuation escaped."""
    return _PUNCTUATION.sub(r"\\\1", one_line(text))


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)


def _blocks(lines: Iterable[str]) -> Iterator[str]:
    """Yield escaped lines; the lines of a paragraph are escaped together."""
    chunk: list[str] = []
    fence = ""
    for line in lines:
        if fence:
            yield line
            closing = _CLOSING.fullmatch(line)
            if closing is not None and closing.group(1).startswith(fence):
                fence = ""
        elif opening := _OPENING.fullmatch(line):
            yield from _escaped(chunk)
            chunk = []
            fence, info = opening.groups()
            # Some parsers recognise the head of a table before they recognise a fence.
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


def _escaped(chunk: list[str]) -> Iterator[str]:
    spans = [_certain_spans(line) for line in chunk]
    certain = None not in spans
    for number, line in enumerate(chunk):
        if number > 0 and _UNDERLINE.fullmatch(line):
            yield f"\\{line.lstrip(' ')}"
        else:
            yield _demoted(_defused(line, (spans[number] or []) if certain else []))


def _certain_spans(line: str) -> list[tuple[int, int]] | None:
    """Return the ranges of inline code in a line; None if they depend on other lines.

    If every run of backticks in a paragraph is closed by an equal run on the same line, there is
    only one interpretation. Escaped backticks and table cells would allow another one.
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
    """Return a line with tags and images escaped outside the given spans."""
    parts: list[str] = []
    position = 0
    for start, end in spans:
        parts += _defused_text(line[position:start]), line[start:end]
        position = end
    parts.append(_defused_text(line[position:]))
    return "".join(parts)


def _defused_text(text: str) -> str:
    # Entities, not backslashes: a preceding backslash in the text cannot undo them.
    return _TAG.sub("&lt;", text).replace("![", "&#33;[")


def _demoted(line: str) -> str:
    heading = _HEADING.match(line)
    if heading is None:
        return line
    containers, signs = heading.groups()
    level = min(_DEEPEST_LEVEL, len(signs) + _OUR_LEVELS)
    return containers + "#" * level + line[heading.end() :]
