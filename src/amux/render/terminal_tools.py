"""Tool calls as people read them: one line with the outcome, then the output or the diff.

The line of a call shows its most telling input: the command, the file, the pattern. With
`Layout.full` all other fields of the input follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple, cast

import msgspec

from amux.model.message import SessionMessage, SessionToolCall
from amux.render.content import described, one_line, value_text
from amux.render.edits import PATHS, FileEdits, Sign, find_edits, patch_in_command
from amux.render.json import to_json_text
from amux.render.terminal_text import (
    INDENT,
    Layout,
    Line,
    Style,
    block,
    cells,
    cut,
    hard_rows,
    has_text,
    indented,
    lines_of,
    more,
    one_row,
)

_COMMANDS: Final = ("command", "cmd", "script", "code")
_TOPICS: Final = ("pattern", "query", "url", "regex", "glob")
_TASKS: Final = ("description", "prompt", "task", "goal", "message", "name", "question", "title")
_INNER: Final = 2 * INDENT
_DIFF_LINES: Final = 20
_DIFF_ROWS: Final = 3  # of one line
_OUTPUT_LINES: Final = 4
_FAILURE_LINES: Final = (2, 4)  # the first lines and the last, which say what went wrong
_SECOND: Final = 1000
_SHELL_WORDS: Final = 3
_MOST_DECODED: Final = 1_000_000
_PREAMBLE: Final = re.compile(
    r"(?:(?:Chunk ID|Wall time|Original token count|Total output lines|Exit code):? .*\n"
    r"|Process (?:exited|running) .*\n|Script (?:completed|running).*\n)+(?:Output:\n)?"
)
_STYLES: Final[dict[Sign, Style]] = {"+": "added", "-": "removed", " ": "plain", "@": "hunk"}


class CallOutcome(NamedTuple):
    """The result of a call as far as it is known."""

    text: str = ""
    failed: bool | None = None
    images: tuple[str, ...] = ()
    duration_ms: int | None = None


def outcome_of(call: SessionToolCall, result: SessionMessage | None) -> CallOutcome:
    """Return the outcome of a call from its result, or from the call itself if there is none."""
    if result is None:
        known = call.output is not None or call.is_error is not None
        failed = bool(call.is_error) if known else None
        return CallOutcome(value_text(call.output), failed, (), call.duration_ms)
    found = outcome_of_result(result)
    return found._replace(failed=bool(call.is_error or found.failed), duration_ms=call.duration_ms)


def outcome_of_result(message: SessionMessage) -> CallOutcome:
    """Return the outcome that a tool message shows."""
    result = message.tool_result
    if result is None:
        return CallOutcome(message.content, None, message.images)
    text = message.content if has_text(message.content) else value_text(result.output)
    return CallOutcome(text, bool(result.is_error), message.images)


def call_lines(
    call: SessionToolCall, outcome: CallOutcome, layout: Layout, cwd: str | None
) -> Iterator[Line]:
    """Yield one call: its line, its edits or its other input, and its output."""
    edits = _edits_of(call, layout)
    key, text, fields = _shown_input(call, edits, cwd, layout)
    headline = _Headline(call.tool_name, outcome, layout, edits)
    if layout.full and key in fields and headline.holds(fields[key]):
        del fields[key]
    elif layout.full:
        text = ""
    yield headline.line(text)
    if edits is not None:
        yield from _diff(edits, layout, failed=outcome.failed is True)
    if layout.full:
        yield from _fields(fields, layout)
        if (fields or edits is not None) and has_text(outcome.text):
            yield indented("output:", _INNER, "label")
    if edits is None or outcome.failed or layout.full:
        yield from output_lines(outcome, layout)


def result_lines(name: str, outcome: CallOutcome, layout: Layout) -> Iterator[Line]:
    """Yield the result of a call that is not shown with it."""
    yield _Headline(name, outcome, layout, None).line("(result)")
    yield from output_lines(outcome, layout)


def output_lines(outcome: CallOutcome, layout: Layout) -> Iterator[Line]:
    """Yield the output of a call, folded to a few lines, and a line for each image."""
    text = outcome.text if layout.full else _readable(outcome.text)
    head, tail = _FAILURE_LINES if outcome.failed else (_OUTPUT_LINES, 0)
    style: Style = "failed" if outcome.failed else "faint"
    yield from block(text, layout, indent=_INNER, style=style, head=head, tail=tail)
    yield from image_lines(outcome.images, indent=_INNER)


def image_lines(images: tuple[str, ...], *, indent: int) -> Iterator[Line]:
    """Yield a line for each image."""
    for number, image in enumerate(images, start=1):
        yield indented(f"[image {number}: {one_line(described(image))}]", indent, "faint")


def _edits_of(call: SessionToolCall, layout: Layout) -> FileEdits | None:
    edits = find_edits(call.tool_name, call.input)
    if edits is None and not layout.full:  # the command around the patch is left out
        edits = patch_in_command(_telling(call.input)[1])
    return edits


def _shown_input(
    call: SessionToolCall, edits: FileEdits | None, cwd: str | None, layout: Layout
) -> tuple[str | None, str, dict[str, Any]]:
    """Return the field and the text for the line of a call, and all fields of the input."""
    if edits is not None:
        paths = ", ".join(_relative(path, cwd, layout) for path in edits.paths)
        return "file", paths, {**({"file": paths} if paths else {}), **edits.rest}
    key, text = _telling(call.input)
    text = _relative(text, cwd, layout) if key in PATHS else text
    given: Any = call.input
    if isinstance(given, dict):
        return key, text, {**cast("dict[str, Any]", given)}
    return key, text, {} if given in (None, "") else {"input": given}


class _Headline:
    """The line of a call: a mark for its outcome, the tool, an input, and notes."""

    def __init__(
        self, name: str, outcome: CallOutcome, layout: Layout, edits: FileEdits | None
    ) -> None:
        name = one_line(name) or "?"
        self._name = name if layout.full else cut(name, layout.room(INDENT) // 2)
        self._notes = " ".join(_notes(outcome, edits))
        used = INDENT + 2 + cells(self._name) + 2 + (cells(self._notes) + 2 if self._notes else 0)
        self._room = max(layout.width - used, 1)
        self._failed = outcome.failed

    def holds(self, value: Any) -> bool:
        """Return whether a value is a text of which nothing is lost on this line."""
        return isinstance(value, str) and one_line(value) == value and cells(value) <= self._room

    def line(self, text: str) -> Line:
        """Return the line, with a text that is cut if it does not fit."""
        sign = "·" if self._failed is None else "✗" if self._failed else "✓"
        marked: Style = "faint" if self._failed is None else "done"
        styles: tuple[Style, ...] = (marked, "tool", "plain", "faint")
        if self._failed:
            styles = ("failed", "failed", "failed", "failed")
        shown, notes = one_row(text, self._room), self._notes
        texts = (
            f"{' ' * INDENT}{sign} ",
            self._name,
            shown and f"  {shown}",
            notes and f"  {notes}",
        )
        return tuple((text, style) for text, style in zip(texts, styles, strict=True) if text)


def _notes(outcome: CallOutcome, edits: FileEdits | None) -> Iterator[str]:
    if edits is not None:
        added, removed = edits.counts()
        yield from (f"{sign}{count:,}" for sign, count in (("+", added), ("-", removed)) if count)
    if outcome.duration_ms is not None and outcome.duration_ms >= _SECOND:
        yield f"{outcome.duration_ms / _SECOND:,.1f} s"
    if outcome.failed:
        yield "failed"


def _diff(edits: FileEdits, layout: Layout, *, failed: bool) -> Iterator[Line]:
    changes = edits.changes(full=layout.full)
    if len(edits.paths) == 1 and not layout.full:  # the line of the call names the file
        changes = (each for each in changes if each[0] != "@" or not _is_heading(each[1]))
    for sign, text in islice(changes, None if layout.full else _DIFF_LINES):
        yield from _change_rows(sign, text, layout, "faint" if failed else _STYLES[sign])
    last = next(changes, None)
    rest = sum(1 for _ in changes)
    if rest:
        yield indented(more(rest + 1), _INNER, "folded")
    elif last is not None:
        yield from _change_rows(*last, layout, "faint" if failed else _STYLES[last[0]])


def _change_rows(sign: Sign, text: str, layout: Layout, style: Style) -> Iterator[Line]:
    """Yield one line of a diff; unless `full`, a very long one is cut."""
    mark = "" if sign == "@" else f"{sign} "
    room = layout.room(_INNER + len(mark))
    if not layout.full:
        text = cut(text, _DIFF_ROWS * room)
    for line in lines_of(text) if text.strip() else ("",):
        for row in hard_rows(line, room):
            yield ((f"{' ' * _INNER}{mark}{row}", style),)


def _is_heading(text: str) -> bool:
    return text.startswith(("*** Add File", "*** Update File", "--- ", "+++ ", "diff --git"))


def _fields(fields: Mapping[str, Any], layout: Layout) -> Iterator[Line]:
    """Yield the fields of an input: the name, then the value on the same line or below."""
    for name, value in fields.items():
        label = f"{' ' * _INNER}{one_line(name)}:"
        text = value_text(value) if isinstance(value, str) else to_json_text(value, indent=2)
        if "\n" not in text and cells(label) + 1 + cells(one_line(text)) <= layout.width:
            yield ((label, "label"), (f" {one_row(text, layout.width)}", "plain"))
        else:
            yield ((label, "label"),)
            yield from block(text, layout, indent=_INNER + INDENT, style="plain", head=0)


def _telling(given: Any) -> tuple[str | None, str]:
    """Return the most telling field and its text; the field `input` or None is all of it."""
    if not isinstance(given, dict):
        is_text = given is None or isinstance(given, str)
        return "input", value_text(given) if is_text else to_json_text(given)
    fields = cast("dict[str, Any]", given)
    for name in (*_COMMANDS, *_TOPICS, *PATHS, *_TASKS):
        value = fields.get(name)
        if name in _COMMANDS and isinstance(value, list):
            return name, _joined(cast("list[object]", value))
        if isinstance(value, str) and has_text(value):
            return name, value
    return None, to_json_text(fields) if fields else ""


def _joined(words: list[object]) -> str:
    """Return a command that is given as words; of `bash -lc ...` only the script."""
    texts = [str(word) for word in words]
    if len(texts) == _SHELL_WORDS and texts[1] in ("-c", "-lc"):
        return texts[2]
    import shlex

    return shlex.join(texts)


def _relative(path: str, cwd: str | None, layout: Layout) -> str:
    """Return a path relative to the directory of the session, if it is below it."""
    return path if layout.full or not cwd else path.removeprefix(cwd.rstrip("/") + "/")


def _readable(text: str) -> str:
    """Return the part of an output that people read: without the frame that an agent adds."""
    if text.startswith("{"):
        inner = _inner_output(text)
        if inner is not None:
            return inner
    match = _PREAMBLE.match(text)
    return text if match is None else text[match.end() :]


def _inner_output(text: str) -> str | None:
    """Return the output inside a JSON object such as `{"output": "...", "exit_code": 1}`."""
    if len(text) > _MOST_DECODED:
        return None
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    fields = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    texts = [fields.get(name) for name in ("output", "stdout", "stderr", "error", "content")]
    parts = [part for part in texts if isinstance(part, str) and part.strip()]
    return "\n".join(parts) if parts else None
