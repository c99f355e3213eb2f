r"""Parses regular expressions to trees, and estimates how long a search for one can take.

Characters are bit sets: one bit for each ASCII character, and some that stand for all others. A set
contains at least the characters that can match, so two sets without a common bit never match the
same character.

Python tries every way to divide a text between the parts of an expression. There are two cases in
which there are too many ways:

- A repeated part can match in several ways itself: `(\w+\s?)+$`, `(a|aa)+$`. The ways multiply with
  every repetition. A repeat is safe if every text can be divided into its repetitions in one way
  only: `(foo|bar)+`, `(,?\d)*`. This is a question about codes, and it is decidable.
- Consecutive repeats can match the same text: `a*a*a*b`, `x.*y.*z`. Each multiplies the number of
  ways by the length of the text, and so does the fact that a match can begin anywhere.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from importlib import import_module
from itertools import product
from typing import Any, Final

from amux.model.words import fold

_UNBOUNDED: Final = 1 << 30
"""The upper limit of a repeat that has none."""

_ASCII: Final = 128
# Other characters share bits by kind: digits, other word characters, spaces, signs.
_DIGITS, _LETTERS, _SPACES, _SIGNS = (
    ((1 << count) - 1) << (_ASCII + first) for first, count in ((0, 8), (8, 40), (48, 8), (56, 8))
)
_NON_ASCII: Final = _DIGITS | _LETTERS | _SPACES | _SIGNS
_EVERY: Final = _NON_ASCII | ((1 << _ASCII) - 1)
NEWLINE: Final = 1 << ord("\n")
_KELVIN: Final = frozenset("iksIKS")  # ignoring case, these match characters outside ASCII
_MOST_WORDS: Final = 256
_LONGEST_WORD: Final = 256


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    mask: int


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that matches no characters: an edge, or a look-around with its content."""

    inner: Node | None = None


@dataclass(frozen=True, slots=True)
class Concat:
    """A sequence."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """Alternatives."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A repeated part."""

    node: Node
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Atomic:
    """A part without backtracking into it once it has matched."""

    node: Node


@dataclass(frozen=True, slots=True)
class BackReference:
    """A back reference to a group."""


Node = Chars | Check | Concat | Branch | Repeat | Atomic | BackReference
_ANY: Final = Chars(_EVERY)
Word = tuple[int, ...]
"""A text of known length, as one set for each character."""


@lru_cache
def tree_of(pattern: str, flags: int = re.IGNORECASE) -> Concat:
    """Return the tree of an expression that compiles."""
    parse: Any = import_module("re._parser").parse  # there is no public interface to the parser
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parsed = parse(pattern, flags)
    return _TreeBuilder(dots_match_all=bool(parsed.state.flags & re.DOTALL)).concat(parsed)


class _TreeBuilder:
    """Converts the output of Python's parser."""

    def __init__(self, *, dots_match_all: bool) -> None:
        self._dots_match_all = dots_match_all

    def concat(self, parsed: Any) -> Concat:
        return Concat(tuple(self._node(str(kind), value) for kind, value in parsed))

    def _node(self, kind: str, value: Any) -> Node:
        match kind:
            case "LITERAL" | "NOT_LITERAL" | "IN":
                return Chars(_set(value if kind == "IN" else [(kind, value)]))
            case "ANY":
                return _ANY if self._dots_match_all else Chars(_EVERY & ~NEWLINE)
            case "AT":
                return Check()
            case "GROUPREF":
                return BackReference()
            case _:
                return self._compound(kind, value)

    def _compound(self, kind: str, value: Any) -> Node:
        match kind:
            case "SUBPATTERN":
                _, added, removed, inner = value
                all_now = (self._dots_match_all or bool(added & re.DOTALL)) and not (
                    removed & re.DOTALL
                )
                return _TreeBuilder(dots_match_all=all_now).concat(inner)
            case "BRANCH":
                return Branch(tuple(map(self.concat, value[1])))
            case "GROUPREF_EXISTS":
                return Branch(tuple(self.concat(each or ()) for each in value[1:]))
            case "ATOMIC_GROUP":
                return Atomic(self.concat(value))
            case "ASSERT" | "ASSERT_NOT":
                return Check(self.concat(value[1]))
            case _:
                low, high, inner = value
                repeat = Repeat(self.concat(inner), int(low), min(int(high), _UNBOUNDED))
                return Atomic(repeat) if kind == "POSSESSIVE_REPEAT" else repeat


def _literal(code: int) -> int:
    letter = chr(code)
    mask = 0
    for each in {letter, letter.lower(), letter.upper(), letter.swapcase(), fold(letter)}:
        for one in each if len(each) == 1 or not each.isascii() else ():
            mask |= 1 << ord(one) if one.isascii() else _non_ascii(one)
            mask |= _LETTERS if one in _KELVIN else 0
    return mask


def _non_ascii(letter: str) -> int:
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
                first, last = value
                for code in range(first, min(last + 1, _ASCII)):
                    mask |= 1 << code if negated else _literal(code)
                mask |= _NON_ASCII if last >= _ASCII else 0
            case _:
                mask |= _category(str(value))
    return (_EVERY & ~mask) | _NON_ASCII if negated else mask


def _category(name: str) -> int:
    letters = map(chr, range(_ASCII))
    if "DIGIT" in name:
        members, others = [each.isdigit() for each in letters], _DIGITS
    elif "SPACE" in name:
        members, others = [each.isspace() for each in letters], _SPACES
    else:
        members = [each.isalnum() or each == "_" for each in letters]
        others = _DIGITS | _LETTERS
    mask = others | sum(1 << code for code, is_member in enumerate(members) if is_member)
    return _EVERY & ~mask if "NOT" in name else mask


def least_length(node: Node) -> int:
    """Return the length of the shortest match."""
    match node:
        case Chars():
            return 1
        case Check() | BackReference():
            return 0
        case Concat(nodes):
            return sum(map(least_length, nodes))
        case Branch(nodes):
            return min(map(least_length, nodes), default=0)
        case Repeat(inner, low):
            return low * least_length(inner)
        case Atomic(inner):
            return least_length(inner)


def nodes_in(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes in it."""
    yield node
    match node:
        case Concat(nodes) | Branch(nodes):
            for each in nodes:
                yield from nodes_in(each)
        case Repeat(inner) | Atomic(inner) | Check(Concat() as inner):
            yield from nodes_in(inner)
        case _:
            pass


def words_of(node: Node) -> list[Word] | None:
    """Return all texts that a node can match; None if there are too many or it is not known."""
    match node:
        case Chars(mask):
            return [(mask,)]
        case Check():
            return [()]
        case Concat(nodes):
            return _joined([words_of(each) for each in nodes])
        case Branch(nodes):
            found = [words_of(each) for each in nodes]
            known = [word for words in found if words is not None for word in words]
            return _bounded(known) if None not in found else None
        case Repeat(inner, low, high):
            return None if high > _LONGEST_WORD else _repeated(words_of(inner), low, high)
        case Atomic() | BackReference():
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


_LENGTH: Final = 4096
"""The length of a line that is long but not unusual."""

_MOST_STEPS: Final = 16 * _LENGTH**2
_FEW_WAYS: Final = 100_000
_MANY_REPETITIONS: Final = 64
_MOST_PATHS: Final = 1024
_MOST_REPETITIONS: Final = 8  # of an unbounded part; more are too many in any case


@dataclass(frozen=True, slots=True)
class _Segment:
    """A segment of a path: its characters, the number of ways to match, and whether it must."""

    mask: int
    ways: int = 1
    is_needed: bool = True


_Path = tuple[_Segment, ...]
_EMPTY: Final[list[_Path]] = [()]
_CHECK: Final = _Segment(0, is_needed=False)
_ANY_START: Final = _Segment(_ANY.mask, _LENGTH, is_needed=False)


def may_take_forever(tree: Node) -> bool:
    """Return whether a search in texts of ordinary length can take minutes or years."""
    nodes = [*nodes_in(tree)]
    if any(isinstance(node, Repeat) and _is_ambiguous(node) for node in nodes):
        return True
    separate = [node.node for node in nodes if isinstance(node, Atomic)]
    separate += [node.inner for node in nodes if isinstance(node, Check) and node.inner is not None]
    return any(
        sum(_steps_of((_ANY_START, *path)) for path in _paths(each)) > _MOST_STEPS
        for each in (tree, *separate)
    )


def _is_ambiguous(repeat: Repeat) -> bool:
    """Return whether a text can be divided into repetitions in more ways than can be tried."""
    if repeat.high <= 1:
        return False
    words = words_of(repeat.node)
    if words is None:
        is_long = repeat.high > repeat.low or repeat.high > _MOST_REPETITIONS
        return _has_choice(repeat.node) and is_long
    return _ways(words, repeat.high) > _FEW_WAYS and not is_unique(words)


def _ways(words: Sequence[Word], repetitions: int) -> int:
    ways: int = len(words) ** min(repetitions, _MANY_REPETITIONS)
    return ways


def _has_choice(node: Node) -> bool:
    """Return whether a node can match in several ways at one position; atomic nodes cannot."""
    match node:
        case Chars() | Check() | Atomic() | BackReference():
            return False
        case Concat(nodes):
            return any(map(_has_choice, nodes))
        case Branch():
            return True
        case Repeat(inner, low, high):
            return low < high or _has_choice(inner)


def is_unique(words: Sequence[Word]) -> bool:
    """Return whether every text composed of these words can be divided into them in one way only.

    This is the test of Sardinas and Patterson, with sets instead of letters: the remainder of one
    word after another, repeated, never becomes a word.
    """
    remainders: set[Word] = set()
    for position, one in enumerate(words):
        if not one or any(_fits(one, two) and len(one) == len(two) for two in words[:position]):
            return False
        remainders |= {rest for two in words if (rest := _remainder(one, two))}
    done: set[Word] = set()
    while remainders:
        rest = remainders.pop()
        done.add(rest)
        for word in words:
            if len(word) == len(rest) and _fits(word, rest):
                return False
            following = _remainder(word, rest) or _remainder(rest, word)
            if following and following not in done:
                remainders.add(following)
    return True


def _fits(one: Word, two: Word) -> bool:
    return all(mine & others for mine, others in zip(one, two, strict=False))


def _remainder(one: Word, two: Word) -> Word | None:
    """Return the rest of the second word if the first is shorter and can be its beginning."""
    return two[len(one) :] if len(one) < len(two) and _fits(one, two) else None


def _steps_of(path: _Path) -> int:
    """Return about how many steps a search takes in a long line, at worst.

    It is the product of the ways of the longest chain of segments that can match the same text.
    """
    can_fail = [segment.is_needed or not segment.mask for segment in path]
    end = next((n for n in range(len(path), 0, -1) if can_fail[n - 1]), 0)
    most = [1] * end
    for position, segment in enumerate(path[:end]):
        before = [most[other] // gap for other, gap in _sharing(path, position)]
        most[position] = max(1, segment.ways * max(before, default=1))
    return max(most, default=1)


def _sharing(path: _Path, position: int) -> Iterator[tuple[int, int]]:
    """Yield the earlier segments that can match the same text, and the least gap before each."""
    common, gap = path[position].mask, 0
    if path[position].ways == 1:
        return
    between: list[int] = []
    for other in range(position - 1, -1, -1):
        segment = path[other]
        shared = segment.mask & common
        if segment.ways > 1 and shared and all(shared & mask for mask in between):
            yield other, max(gap, 1)
        if segment.is_needed:
            between.append(segment.mask)
            gap += 1
            if not segment.mask & common:
                return


def _paths(node: Node) -> list[_Path]:
    """Return the paths through a node, one for each combination of its alternatives."""
    match node:
        case Concat(nodes):
            return reduce(_in_sequence, map(_paths, nodes), _EMPTY)
        case Branch(nodes):
            found = [path for each in nodes for path in _paths(each)]
            return found if len(found) <= _MOST_PATHS else [(_Segment(_mask_of(node), len(found)),)]
        case Repeat(inner, low, high):
            return _repeated_paths(inner, low, high)
        case _:
            return [_single(node)]


def _single(node: Chars | Check | BackReference | Atomic) -> _Path:
    match node:
        case Chars(mask):
            return (_Segment(mask),)
        case Check():
            return (_CHECK,)
        case BackReference():
            return (_ANY_START, _CHECK)  # it is compared on every try
        case Atomic(inner):
            ways = _LENGTH if _is_unbounded(inner) else 1  # it is matched on every try
            return (_Segment(_mask_of(inner), ways, is_needed=False), _CHECK)


def _in_sequence(one: list[_Path], two: list[_Path]) -> list[_Path]:
    if len(one) * len(two) <= _MOST_PATHS:
        return [first + second for first, second in product(one, two)]
    few, many = sorted((one, two), key=len)
    mask = _union(segment.mask for path in many for segment in path)
    some: list[_Path] = [(_Segment(mask, len(many)),)]
    return _in_sequence(some, few) if many is one else _in_sequence(few, some)


def _repeated_paths(inner: Node, low: int, high: int) -> list[_Path]:
    words = words_of(inner) if 1 < high < _UNBOUNDED else None
    if words is not None and not is_unique(words):
        return [(_Segment(_mask_of(inner), _ways(words, high), is_needed=low > 0),)]
    if _is_unbounded(inner) and not _has_choice(inner):  # all repetitions form one path
        return [_single(Atomic(inner))]
    repetitions = min(low, _MOST_REPETITIONS)
    needed = reduce(_in_sequence, [_paths(inner)] * repetitions, _EMPTY) if low else _EMPTY
    if low == high:
        return needed
    ways = _LENGTH if high >= _UNBOUNDED else min(high - low + 1, _LENGTH)
    return _in_sequence(needed, [(_Segment(_mask_of(inner), ways, is_needed=False),)])


def _is_unbounded(node: Node) -> bool:
    return any(isinstance(each, Repeat) and each.high >= _UNBOUNDED for each in nodes_in(node))


def _mask_of(node: Node) -> int:
    return _union(each.mask for each in nodes_in(node) if isinstance(each, Chars))


def _union(masks: Iterable[int]) -> int:
    return reduce(int.__or__, masks, 0)
