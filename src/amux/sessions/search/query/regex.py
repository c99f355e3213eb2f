r"""Regular expressions as people write them, and what speaks against one.

Python tries every way to divide a text between the parts of an expression: `(\w+\s?)+$` would keep
a search busy for years. Such an expression is refused before it runs (`expression_costs`). In an
atomic group or possessive, `(?>\w+\s?)+$`, the inner repeat gives nothing back, and all is well.

Most expressions hold a text that every match has, too: only texts with it need be looked at.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from amux.sessions.search.query.regex_cost import may_take_forever
from amux.sessions.search.query.regex_tree import (
    NEWLINE,
    Atomic,
    Chars,
    Check,
    Node,
    Repeat,
    Row,
    Same,
    least_length,
    nodes_in,
    tree_of,
    words_of,
)

PIECE: Final = re.compile(
    r"""
      \\.  |  \[ \^? \]? (?: \\. | [^\]\\] )* \]     # a sign, a set
    | (?P<open> \( )
    | (?P<close> \) )
    | (?P<repeat> [*+?] | \{\d+\} | \{\d*,\d*\} )
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
BY_NUMBER: Final = re.compile(r"\\[xuUN0-9]")  # a sign that goes on behind this

_FLAGS: Final = re.compile(r"\(\?[aimsu]+\)")
_GROUP: Final = re.compile(r"\((?!\?)|\(\?:|\(\?P<\w+>")
_ENDLESS: Final = re.compile(r"(?:(?P<any>\*)|(?P<one>\+)|\{(?P<low>\d*),\})\??")
_WRITTEN_OUT: Final = 4
Span = tuple[int, int]


class _Element(NamedTuple):
    """What stands at the outermost level of an expression, and how often."""

    atom: str
    often: str = ""

    @property
    def low(self) -> int | None:
        """How often at least, where there is no end of it."""
        endless = _ENDLESS.fullmatch(self.often)
        if endless is None:
            return None
        return 1 if endless["one"] else int(endless["low"] or 0)

    @property
    def shortest(self) -> str:
        """As often as it has to be there."""
        low = self.low or 0
        return self.atom * low if low <= _WRITTEN_OUT else f"{self.atom}{{{low}}}"


@dataclass(frozen=True)
class Trail:
    """Parts to be found one after the other; nothing but `.` lies between them.

    `is_far` tells of each part but the last whether another match of it may begin later and yet end
    earlier. With `over_lines` a `.` fits the end of a line, too.
    """

    parts: tuple[re.Pattern[str], ...]
    is_far: tuple[bool, ...] = ()
    over_lines: bool = False

    def spans(self, text: str) -> Iterator[Span]:
        """Where it is found, from the left, each behind the other; nowhere, if it is nothing."""
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
                    line_end = len(text) if self.over_lines else _line_end(text, end)
                following = step.find(text, end)
                if following is None:
                    return None  # nor is it behind any later match of what comes before
                if following[1] > line_end:
                    break
                end = following[2]
            else:
                return start, end
            position = leftmost + 1
        return None


class _Step:
    """A part in a text, looked for ever further on: what was found is remembered."""

    def __init__(self, pattern: re.Pattern[str], *, is_far: bool) -> None:
        self._pattern = pattern
        self._is_far = is_far
        self._from = 0
        self._found: tuple[int, int, int] | None = None
        self._has_looked = False

    def find(self, text: str, position: int) -> tuple[int, int, int] | None:
        """Where the first match begins, and the span of the one that ends first."""
        known = self._found
        is_ahead = known is None or known[0] >= position
        if self._has_looked and self._from <= position and is_ahead:
            return known
        match = self._pattern.search(text, position)
        self._has_looked, self._from, self._found = True, position, None
        if match is not None:
            start, end = match.span()
            while self._is_far and (sooner := self._pattern.search(text, start + 1, end - 1)):
                start, end = sooner.span()
            self._found = match.start(), start, end
        return self._found


def _line_end(text: str, position: int) -> int:
    found = text.find("\n", position)
    return len(text) if found < 0 else found


@lru_cache
def trails_of(expression: re.Pattern[str]) -> tuple[Trail, ...]:
    """The ways to look for an expression: it is found where one of them is."""
    pattern, flags = expression.pattern, expression.flags
    whole = (Trail((expression,)),)
    is_odd = flags & re.VERBOSE or BY_NUMBER.search(pattern) or "(?#" in pattern
    if is_odd or _refers_back(tree_of(pattern, flags)):
        return whole
    own_flags = _FLAGS.match(pattern)
    branches = _branches(pattern if own_flags is None else pattern[own_flags.end() :])
    if branches is None:
        return whole
    return tuple(_trail(branch, flags) for branch in branches)


def takes_forever(expression: re.Pattern[str]) -> bool:
    """Whether one of its parts may keep Python busy for good."""
    parts = (part for trail in trails_of(expression) for part in trail.parts)
    return any(may_take_forever(tree_of(part.pattern, part.flags)) for part in parts)


def _refers_back(tree: Node) -> bool:
    return any(isinstance(node, Same) for node in nodes_in(tree))


def _branches(pattern: str) -> list[list[_Element]] | None:
    """The alternatives at the outermost level; None where there is no telling."""
    branches: list[list[_Element]] = [[]]
    depth, opened = 0, 0
    for piece in PIECE.finditer(pattern):
        depth += piece["open"] is not None
        if depth > 0:
            depth -= piece["close"] is not None
            opened = piece.start() if depth == 1 and piece["open"] else opened
            if depth == 0:
                branches[-1].append(_Element(pattern[opened : piece.end()]))
        elif piece["repeat"] and branches[-1]:
            last = branches[-1].pop()
            branches[-1].append(_Element(last.atom, last.often + piece[0]))
        elif piece[0] == "|":
            branches.append([])
        else:
            branches[-1].append(_Element(piece[0]))
    return [*map(_unpacked, branches)] if depth == 0 and all(branches) else None


def _unpacked(elements: list[_Element]) -> list[_Element]:
    """The same without parentheses that change nothing."""
    found: list[_Element] = []
    for element in elements:
        group = None if element.often else _GROUP.match(element.atom)
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
    return "".join(f"{each.atom}{each.often}" for each in elements)


def _shortened(elements: Sequence[_Element], flags: int) -> list[_Element]:
    """Repeats at the ends, and beside a `.*` that can match the same, no longer than they must."""
    rest = [*elements]
    for step in (1, -1):
        rest.reverse()
        while rest and _is_run(rest[-1], flags):
            short = rest.pop().shortest
            if short:
                rest.append(_Element(short))
                break
        if step == 1:
            _shorten_beside_gaps(rest, flags)
    return rest


def _shorten_beside_gaps(elements: list[_Element], flags: int) -> None:
    place = 0
    while place + 1 < len(elements):
        one, two = elements[place], elements[place + 1]
        if _is_run(one, flags) and _is_run(two, flags):
            if _is_gap(two) and _stays_in_line(one, flags):
                elements[place : place + 1] = _shortest(one)
                place -= place > 0 and one.low == 0
                continue
            if _is_gap(one) and _stays_in_line(two, flags):
                elements[place + 1 : place + 2] = _shortest(two)
                continue
        place += 1


def _shortest(element: _Element) -> list[_Element]:
    return [_Element(element.shortest)] if element.shortest else []


def _is_run(element: _Element, flags: int) -> bool:
    """Whether it is one character again and again, without end."""
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
    """The elements between gaps, as long as each part is such that its first match will do."""
    parts: list[list[_Element]] = []
    rest: list[_Element] = []
    for place, element in enumerate(elements):
        if not _is_gap(element):
            rest.append(element)
            continue
        if not _will_do(tree_of(_joined(rest), flags), flags, is_first=not parts):
            return [*parts, [*rest, *elements[place:]]]
        parts.append(rest)
        rest = [_Element(element.shortest)] if element.shortest else []
    return [*parts, rest]


def _will_do(tree: Row, flags: int, *, is_first: bool) -> bool:
    """Whether of all matches the one that ends first is the best, and can be found."""
    over_lines = bool(flags & re.DOTALL)
    chars = [node for node in nodes_in(tree) if isinstance(node, Chars)]
    if not (is_first or over_lines) and any(node.mask & NEWLINE for node in chars):
        return False  # a later match may reach the next line
    if _is_of_one_length(tree):
        return True
    has_checks = any(isinstance(node, Check | Atomic) for node in nodes_in(tree))
    return not has_checks and _has_one_end(tree)


def _is_of_one_length(tree: Node) -> bool:
    words = words_of(tree)
    return words is not None and len({len(word) for word in words}) <= 1


def _has_one_end(tree: Row) -> bool:
    """Whether two matches that begin at the same place end at the same."""
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
    """Whether it can match in one way only, given what follows."""
    match node, following:
        case Repeat(Row((Chars(mask),))), Chars(other) if not mask & other:
            return True
        case _:
            return _is_of_one_length(node)


NO_EXPRESSION: Final = "is no regular expression"
ENDLESS: Final = "can be matched in so many ways that it may take forever"

_PLAIN: Final = re.compile("[A-HJ-Za-hj-z0-9_]")
"""What is found in folded text as it stands; for any case, an `i` fits a dotless one, too."""

_MAY_BE_NONE: Final = re.compile(r"[*?]|\{")  # what stands before it need not be there
_NEEDED_LENGTH: Final = 3


def objection(pattern: str) -> str | None:
    """Why an expression cannot be looked for; None: it can."""
    expression = compile_regex(pattern)
    if expression is None:
        return NO_EXPRESSION
    try:
        return ENDLESS if takes_forever(expression) else None
    except RecursionError:  # nobody writes this
        return ENDLESS


@lru_cache
def compile_regex(pattern: str) -> re.Pattern[str] | None:
    """The expression, for any case; None when it is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # `[[` is what it is in this Python
        try:
            return re.compile(pattern, re.IGNORECASE)
        except (re.error, OverflowError, RecursionError):
            return None


@lru_cache
def needed_text(pattern: str) -> str | None:
    """The longest part of a word that every match has, in lower case; None: there is none."""
    expression = compile_regex(pattern)
    if expression is None or expression.flags & re.VERBOSE:
        return None
    runs, depth = [""], 0
    for piece in PIECE.finditer(pattern):
        text = piece[0]
        depth += (piece["open"] is not None) - (piece["close"] is not None)
        if (depth == 0 and text == "|") or BY_NUMBER.match(text):
            return None
        if _MAY_BE_NONE.match(text):
            runs[-1] = runs[-1][:-1]
        if depth == 0 and _PLAIN.fullmatch(text):
            runs[-1] += text.lower()
        else:
            runs.append("")
    longest = max(runs, key=len)
    return longest if len(longest) >= _NEEDED_LENGTH else None
