"""What a regular expression consists of, as far as it decides how long looking for it may take.

Characters are sets of bits: one for each ASCII character, and some that stand for all others. A set
has at least the characters that may match, so that two sets without a common bit never match the
same character.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import product
from typing import Any, Final

from amux.model.words import fold

ENDLESS: Final = 1 << 30
"""How often something may repeat that may do so without end."""

_ASCII: Final = 128
# Others share bits, each kind its own: digits, what else is part of a word, spaces, signs.
_DIGITS, _LETTERS, _SPACES, _SIGNS = (
    ((1 << count) - 1) << (_ASCII + first) for first, count in ((0, 8), (8, 40), (48, 8), (56, 8))
)
_FOREIGN: Final = _DIGITS | _LETTERS | _SPACES | _SIGNS
_EVERY: Final = _FOREIGN | ((1 << _ASCII) - 1)
NEWLINE: Final = 1 << ord("\n")
_KELVIN: Final = frozenset("iksIKS")  # for any case, these fit characters that are no ASCII
_MOST_WORDS: Final = 256
_LONGEST_WORD: Final = 256


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    mask: int


@dataclass(frozen=True, slots=True)
class Check:
    """Nothing, if it holds: an edge, or a look around."""

    inner: Node | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One after the other."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same again and again."""

    node: Node
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Atomic:
    """What gives nothing back once it has matched."""

    node: Node


@dataclass(frozen=True, slots=True)
class Same:
    """What a group has matched before."""


Node = Chars | Check | Row | Choice | Repeat | Atomic | Same
ANY: Final = Chars(_EVERY)
Word = tuple[int, ...]
"""The sets of a text of known length, character by character."""


@lru_cache
def tree_of(pattern: str, flags: int = re.IGNORECASE) -> Row:
    """An expression that compiles, as a tree."""
    parse: Any = import_module("re._parser").parse  # nobody else tells how Python reads it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parsed = parse(pattern, flags)
    return _Reader(dots_match_all=bool(parsed.state.flags & re.DOTALL)).row(parsed)


class _Reader:
    """Reads what the parser of Python has made of an expression."""

    def __init__(self, *, dots_match_all: bool) -> None:
        self._dots_match_all = dots_match_all

    def row(self, parsed: Any) -> Row:
        return Row(tuple(self._node(str(kind), value) for kind, value in parsed))

    def _node(self, kind: str, value: Any) -> Node:
        match kind:
            case "LITERAL" | "NOT_LITERAL" | "IN":
                return Chars(_set(value if kind == "IN" else [(kind, value)]))
            case "ANY":
                return ANY if self._dots_match_all else Chars(_EVERY & ~NEWLINE)
            case "AT":
                return Check()
            case "GROUPREF":
                return Same()
            case _:
                return self._compound(kind, value)

    def _compound(self, kind: str, value: Any) -> Node:
        match kind:
            case "SUBPATTERN":
                _, added, removed, inner = value
                all_now = (self._dots_match_all or bool(added & re.DOTALL)) and not (
                    removed & re.DOTALL
                )
                return _Reader(dots_match_all=all_now).row(inner)
            case "BRANCH":
                return Choice(tuple(map(self.row, value[1])))
            case "GROUPREF_EXISTS":
                return Choice(tuple(self.row(each or ()) for each in value[1:]))
            case "ATOMIC_GROUP":
                return Atomic(self.row(value))
            case "ASSERT" | "ASSERT_NOT":
                return Check(self.row(value[1]))
            case _:
                return self._repeat(kind, value)

    def _repeat(self, kind: str, value: Any) -> Node:
        low, high, inner = value
        repeat = Repeat(self.row(inner), int(low), min(int(high), ENDLESS))
        return Atomic(repeat) if kind == "POSSESSIVE_REPEAT" else repeat


def _literal(code: int) -> int:
    letter = chr(code)
    mask = 0
    for each in {letter, letter.lower(), letter.upper(), letter.swapcase(), fold(letter)}:
        for one in each if len(each) == 1 or not each.isascii() else ():
            mask |= 1 << ord(one) if one.isascii() else _foreign(one)
            mask |= _LETTERS if one in _KELVIN else 0
    return mask


def _foreign(letter: str) -> int:
    if letter.isdecimal():
        return _DIGITS
    if letter.isspace():
        return _SPACES
    return (1 << (_ASCII + 8 + ord(letter) % 40)) if letter.isalnum() else _SIGNS


def _set(items: Any) -> int:
    mask = 0
    negated = False
    for kind, value in items:
        match str(kind):
            case "NEGATE":
                negated = True
            case "NOT_LITERAL":
                return _EVERY & ~(1 << value) if value < _ASCII else _EVERY
            case "LITERAL":
                mask |= 1 << value if negated and value < _ASCII else _literal(value)
            case "RANGE":
                mask |= _range(*value, exactly=negated)
            case _:
                mask |= _category(str(value))
    return (_EVERY & ~mask) | _FOREIGN if negated else mask


def _range(first: int, last: int, *, exactly: bool) -> int:
    codes = range(first, min(last + 1, _ASCII))
    mask = 0
    for code in codes:
        mask |= 1 << code if exactly else _literal(code)
    return mask | (_FOREIGN if last >= _ASCII else 0)


def _category(name: str) -> int:
    letters = map(chr, range(_ASCII))
    if "DIGIT" in name:
        held, foreign = [each.isdigit() for each in letters], _DIGITS
    elif "SPACE" in name:
        held, foreign = [each.isspace() for each in letters], _SPACES
    else:
        held = [each.isalnum() or each == "_" for each in letters]
        foreign = _DIGITS | _LETTERS
    mask = foreign | sum(1 << code for code, holds in enumerate(held) if holds)
    return _EVERY & ~mask if "NOT" in name else mask


def least_length(node: Node) -> int:
    """How many characters it matches at least."""
    match node:
        case Chars():
            return 1
        case Check() | Same():
            return 0
        case Row(nodes):
            return sum(map(least_length, nodes))
        case Choice(nodes):
            return min(map(least_length, nodes), default=0)
        case Repeat(inner, low):
            return low * least_length(inner)
        case Atomic(inner):
            return least_length(inner)


def nodes_in(node: Node) -> Iterator[Node]:
    """A node and everything in it."""
    yield node
    match node:
        case Row(nodes) | Choice(nodes):
            for each in nodes:
                yield from nodes_in(each)
        case Repeat(inner) | Atomic(inner) | Check(Row() as inner):
            yield from nodes_in(inner)
        case _:
            pass


def words_of(node: Node) -> list[Word] | None:
    """All texts that it may match; None: too many, or it cannot be told."""
    match node:
        case Chars(mask):
            return [(mask,)]
        case Check():
            return [()]
        case Row(nodes):
            return _joined([words_of(each) for each in nodes])
        case Choice(nodes):
            found = [words_of(each) for each in nodes]
            known = [word for words in found if words is not None for word in words]
            return _bounded(known) if None not in found else None
        case Repeat(inner, low, high):
            return None if high > _LONGEST_WORD else _repeated(words_of(inner), low, high)
        case Atomic() | Same():
            return None


def _joined(parts: Sequence[list[Word] | None]) -> list[Word] | None:
    words: list[Word] | None = [()]
    for part in parts:
        if words is None or part is None or len(words) * len(part) > _MOST_WORDS:
            return None
        words = _bounded([one + two for one, two in product(words, part)])
    return words


def _repeated(words: list[Word] | None, low: int, high: int) -> list[Word] | None:
    found: list[Word] = []
    for count in range(low, high + 1):
        some = _joined([words] * count)
        if some is None or len(found) + len(some) > _MOST_WORDS:
            return None
        found += some
    return found


def _bounded(words: list[Word]) -> list[Word] | None:
    is_small = len(words) <= _MOST_WORDS and all(len(word) <= _LONGEST_WORD for word in words)
    return words if is_small else None
