r"""Compiles regular expressions, rejects those that may take forever, and searches for the others.

Python tries every way to divide a text between the parts of an expression: `(\w+\s?)+$` would keep
a search busy for years. Such an expression is rejected before it runs (`regex_analysis`). In an
atomic group or with a possessive quantifier, as in `(?>\w+\s?)+$`, there is no backtracking into
the inner repeat, and the expression is accepted.

Most expressions contain a text that is part of every match, so only texts with it must be searched.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from amux.sessions.search.query.regex_analysis import (
    NEWLINE,
    Atomic,
    BackReference,
    Chars,
    Check,
    Concat,
    Node,
    Repeat,
    least_length,
    may_take_forever,
    nodes_in,
    tree_of,
    words_of,
)

_PIECE: Final = re.compile(
    r"""
      \\.  |  \[ \^? \]? (?: \\. | [^\]\\] )* \]     # an escape, a set
    | (?P<open> \( )
    | (?P<close> \) )
    | (?P<repeat> [*+?] | \{\d+\} | \{\d*,\d*\} )
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_BY_NUMBER: Final = re.compile(r"\\[xuUN0-9]")  # an escape that is longer than two characters

_FLAGS: Final = re.compile(r"\(\?[aimsu]+\)")
_GROUP: Final = re.compile(r"\((?!\?)|\(\?:|\(\?P<\w+>")
_UNBOUNDED: Final = re.compile(r"(?:(?P<any>\*)|(?P<one>\+)|\{(?P<low>\d*),\})\??")
_WRITTEN_OUT: Final = 4
Span = tuple[int, int]


class _Element(NamedTuple):
    """An item at the outermost level of an expression, with its quantifier."""

    atom: str
    quantifier: str = ""

    @property
    def low(self) -> int | None:
        """The least number of repetitions; None if the number is bounded."""
        unbounded = _UNBOUNDED.fullmatch(self.quantifier)
        if unbounded is None:
            return None
        return 1 if unbounded["one"] else int(unbounded["low"] or 0)

    def shortest(self) -> list[_Element]:
        """Return the element with the least number of repetitions; nothing if that is 0."""
        low = self.low or 0
        short = self.atom * low if low <= _WRITTEN_OUT else f"{self.atom}{{{low}}}"
        return [_Element(short)] if short else []


@dataclass(frozen=True)
class Trail:
    """Parts to be found one after the other, with nothing but `.*` between them.

    `is_far` states for each part but the last whether another match of it can begin later and still
    end earlier. With `over_lines`, `.` matches line ends too.
    """

    parts: tuple[re.Pattern[str], ...]
    is_far: tuple[bool, ...] = ()
    over_lines: bool = False

    def spans(self, text: str) -> Iterator[Span]:
        """Yield the matches that are not empty, from left to right, without overlaps."""
        if len(self.parts) == 1:
            for match in self.parts[0].finditer(text):
                if match.end() > match.start():
                    yield match.span()
            return
        far = (*self.is_far, False)
        steps = [_Step(part, is_far=each) for part, each in zip(self.parts, far, strict=True)]
        position = 0
        while (found := self._first(steps, text, position)) is not None:
            yield found
            position = found[1]

    def _first(self, steps: Sequence[_Step], text: str, position: int) -> Span | None:
        line_end = -1
        while (found := steps[0].find(text, position)) is not None:
            leftmost, start, end = found
            for step in steps[1:]:
                if not line_end >= end:
                    newline = -1 if self.over_lines else text.find("\n", end)
                    line_end = len(text) if newline < 0 else newline
                following = step.find(text, end)
                if following is None:
                    return None  # nor does it follow any later match of the parts before it
                if following[1] > line_end:
                    break
                end = following[2]
            else:
                return start, end
            position = leftmost + 1
        return None


class _Step:
    """Searches for a part at increasing positions of a text, and caches the last match."""

    def __init__(self, pattern: re.Pattern[str], *, is_far: bool) -> None:
        self._pattern = pattern
        self._is_far = is_far
        self._from: int | None = None
        self._found: tuple[int, int, int] | None = None

    def find(self, text: str, position: int) -> tuple[int, int, int] | None:
        """Return the start of the first match, and the span of the match that ends first."""
        cached = self._found
        is_ahead = cached is None or cached[0] >= position
        if self._from is not None and self._from <= position and is_ahead:
            return cached
        match = self._pattern.search(text, position)
        self._from, self._found = position, None
        if match is not None:
            start, end = match.span()
            while self._is_far and (sooner := self._pattern.search(text, start + 1, end - 1)):
                start, end = sooner.span()
            self._found = match.start(), start, end
        return self._found


@lru_cache
def trails_of(expression: re.Pattern[str]) -> tuple[Trail, ...]:
    """Return the trails of an expression: it matches wherever one of them does."""
    pattern, flags = expression.pattern, expression.flags
    whole = (Trail((expression,)),)
    if flags & re.VERBOSE or _BY_NUMBER.search(pattern) or "(?#" in pattern:
        return whole
    if any(isinstance(node, BackReference) for node in nodes_in(tree_of(pattern, flags))):
        return whole
    own_flags = _FLAGS.match(pattern)
    branches = _branches(pattern if own_flags is None else pattern[own_flags.end() :])
    if branches is None:
        return whole
    return tuple(_trail(branch, flags) for branch in branches)


def _branches(pattern: str) -> list[list[_Element]] | None:
    """Return the alternatives at the outermost level; None if they cannot be determined."""
    branches: list[list[_Element]] = [[]]
    depth, opened = 0, 0
    for piece in _PIECE.finditer(pattern):
        depth += piece["open"] is not None
        if depth > 0:
            depth -= piece["close"] is not None
            opened = piece.start() if depth == 1 and piece["open"] else opened
            if depth == 0:
                branches[-1].append(_Element(pattern[opened : piece.end()]))
        elif piece["repeat"] and branches[-1]:
            last = branches[-1].pop()
            branches[-1].append(_Element(last.atom, last.quantifier + piece[0]))
        elif piece[0] == "|":
            branches.append([])
        else:
            branches[-1].append(_Element(piece[0]))
    return [*map(_unpacked, branches)] if depth == 0 and all(branches) else None


def _unpacked(elements: list[_Element]) -> list[_Element]:
    """Return the elements without parentheses that change nothing."""
    found: list[_Element] = []
    for element in elements:
        group = None if element.quantifier else _GROUP.match(element.atom)
        inner = None if group is None else _branches(element.atom[group.end() : -1])
        found += inner[0] if inner is not None and len(inner) == 1 else [element]
    return found


def _trail(branch: list[_Element], flags: int) -> Trail:
    shortened = _shortened(branch, flags)
    if least_length(tree_of(_joined(shortened), flags)) == 0:
        return Trail((_compiled(branch, flags),))
    compiled = [_compiled(part, flags) for part in _parts(shortened, flags)]
    far = [not _is_of_one_length(tree_of(each.pattern, flags)) for each in compiled[:-1]]
    return Trail(tuple(compiled), tuple(far), bool(flags & re.DOTALL))


def _compiled(elements: Sequence[_Element], flags: int) -> re.Pattern[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # as when the whole was compiled
        return re.compile(_joined(elements), flags)


def _joined(elements: Sequence[_Element]) -> str:
    return "".join(f"{each.atom}{each.quantifier}" for each in elements)


def _shortened(elements: Sequence[_Element], flags: int) -> list[_Element]:
    """Return the elements with the fewest repetitions at the ends and beside a `.*`.

    A repeat beside a `.*` is shortened only if the `.*` can match the same characters.
    """
    rest = [*elements]
    for step in (1, -1):
        rest.reverse()
        while rest and _is_run(rest[-1], flags):
            short = rest.pop().shortest()
            if short:
                rest += short
                break
        if step == 1:
            _shorten_beside_gaps(rest, flags)
    return rest


def _shorten_beside_gaps(elements: list[_Element], flags: int) -> None:
    position = 0
    while position + 1 < len(elements):
        one, two = elements[position], elements[position + 1]
        if _is_run(one, flags) and _is_run(two, flags):
            if _is_gap(two) and _stays_in_line(one, flags):
                elements[position : position + 1] = one.shortest()
                position -= position > 0 and one.low == 0
                continue
            if _is_gap(one) and _stays_in_line(two, flags):
                elements[position + 1 : position + 2] = two.shortest()
                continue
        position += 1


def _is_run(element: _Element, flags: int) -> bool:
    """Return whether an element is one character with an unbounded number of repetitions."""
    return element.low is not None and isinstance(_only(element.atom, flags), Chars)


def _only(atom: str, flags: int) -> Node | None:
    nodes = tree_of(atom, flags).nodes
    return nodes[0] if len(nodes) == 1 else None


def _is_gap(element: _Element) -> bool:
    return element.atom == "." and element.low is not None


def _stays_in_line(element: _Element, flags: int) -> bool:
    node = _only(element.atom, flags)
    return bool(flags & re.DOTALL) or (isinstance(node, Chars) and not node.mask & NEWLINE)


def _parts(elements: Sequence[_Element], flags: int) -> list[list[_Element]]:
    """Split the elements at gaps, as long as the first match of each part is sufficient."""
    parts: list[list[_Element]] = []
    rest: list[_Element] = []
    for position, element in enumerate(elements):
        if not _is_gap(element):
            rest.append(element)
            continue
        if not _is_first_sufficient(tree_of(_joined(rest), flags), flags, is_first=not parts):
            return [*parts, [*rest, *elements[position:]]]
        parts.append(rest)
        rest = element.shortest()
    return [*parts, rest]


def _is_first_sufficient(tree: Concat, flags: int, *, is_first: bool) -> bool:
    """Return whether the match that ends first is the best of all, and can be found."""
    nodes = [*nodes_in(tree)]
    has_newline = any(isinstance(node, Chars) and node.mask & NEWLINE for node in nodes)
    if has_newline and not (is_first or flags & re.DOTALL):
        return False  # a later match may reach the next line
    if _is_of_one_length(tree):
        return True
    return not any(isinstance(node, Check | Atomic) for node in nodes) and _has_one_end(tree)


def _is_of_one_length(tree: Node) -> bool:
    words = words_of(tree)
    return words is not None and len({len(word) for word in words}) <= 1


def _has_one_end(tree: Concat) -> bool:
    """Return whether two matches that begin at the same position end at the same position."""
    words = words_of(tree)
    if words is not None:
        return not any(
            len(one) < len(two) and all(a & b for a, b in zip(one, two, strict=False))
            for one in words
            for two in words
        )
    return all(
        isinstance(node, Chars) or _is_run_up_to(node, following)
        for node, following in zip(tree.nodes, (*tree.nodes[1:], None), strict=True)
    )


def _is_run_up_to(node: Node, following: Node | None) -> bool:
    """Return whether a node can match in one way only, given the node after it."""
    match node, following:
        case Repeat(Concat((Chars(mask),))), Chars(other) if not mask & other:
            return True
        case _:
            return _is_of_one_length(node)


_INVALID: Final = "is not a valid regular expression"
_TAKES_FOREVER: Final = "can match in so many ways that it may take forever"

_PLAIN: Final = re.compile("[A-HJ-Za-hj-z0-9_]")
"""Characters that folding only lowers; ignoring case, an `i` matches a dotless one too."""

_MAY_BE_ABSENT: Final = re.compile(r"[*?]|\{")  # the piece before it is optional
_NEEDED_LENGTH: Final = 3


def objection(pattern: str) -> str | None:
    """Return why an expression cannot be searched for; None if it can."""
    expression = compile_regex(pattern)
    if expression is None:
        return _INVALID
    try:
        parts = (part for trail in trails_of(expression) for part in trail.parts)
        takes_forever = any(may_take_forever(tree_of(part.pattern, part.flags)) for part in parts)
    except RecursionError:  # the expression is nested extremely deeply
        takes_forever = True
    return _TAKES_FOREVER if takes_forever else None


@lru_cache
def compile_regex(pattern: str) -> re.Pattern[str] | None:
    """Return the compiled expression, which ignores case; None if it is invalid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # `[[` has the meaning of this Python
        try:
            return re.compile(pattern, re.IGNORECASE)
        except (re.error, OverflowError, RecursionError):
            return None


@lru_cache
def needed_text(pattern: str) -> str | None:
    """Return the longest part of a word that every match contains, in lower case, or None."""
    expression = compile_regex(pattern)
    if expression is None or expression.flags & re.VERBOSE:
        return None
    runs, depth = [""], 0
    for piece in _PIECE.finditer(pattern):
        text = piece[0]
        depth += (piece["open"] is not None) - (piece["close"] is not None)
        if (depth == 0 and text == "|") or _BY_NUMBER.match(text):
            return None
        if _MAY_BE_ABSENT.match(text):
            runs[-1] = runs[-1][:-1]
        if depth == 0 and _PLAIN.fullmatch(text):
            runs[-1] += text.lower()
        else:
            runs.append("")
    longest = max(runs, key=len)
    return longest if len(longest) >= _NEEDED_LENGTH else None
