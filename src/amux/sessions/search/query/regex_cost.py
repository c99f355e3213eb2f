r"""How long looking for a regular expression may take, at worst.

Python tries every way to divide a text between the parts of an expression. There are two ways in
which these become too many:

- Something repeats that can itself be matched in several ways: `(\w+\s?)+$`, `(a|aa)+$`. The ways
  multiply with every turn. A repeat is safe if any text of its turns can be cut into them in one
  way only: `(foo|bar)+`, `(,?\d)*`. That is a question about codes, and has an answer.
- Several repeats stand in a row that can match the same: `a*a*a*b`, `x.*y.*z`. Each multiplies the
  ways by the length of the text, and so does that a match may begin anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Final

from amux.sessions.search.query.regex_tree import (
    ANY,
    ENDLESS,
    Atomic,
    Chars,
    Check,
    Choice,
    Node,
    Repeat,
    Row,
    Same,
    Word,
    nodes_in,
    words_of,
)

_LENGTH: Final = 4096
"""A line that is long, but no surprise."""

_MOST_STEPS: Final = 16 * _LENGTH**2
_FEW_WAYS: Final = 100_000
_MANY_TURNS: Final = 64
_MOST_PATHS: Final = 1024
_MOST_TURNS: Final = 8  # of something without end; more are too many anyway


@dataclass(frozen=True, slots=True)
class _Part:
    """Of a way through an expression: characters it may match, in how many ways, if it must."""

    mask: int
    ways: int = 1
    is_needed: bool = True


_Path = tuple[_Part, ...]
_NOTHING: Final[list[_Path]] = [()]
_CHECK: Final = _Part(0, is_needed=False)
_START: Final = _Part(ANY.mask, _LENGTH, is_needed=False)


def may_take_forever(tree: Node) -> bool:
    """Whether texts of ordinary length may keep Python busy for minutes, or for years."""
    nodes = [*nodes_in(tree)]
    if any(isinstance(node, Repeat) and _is_ambiguous(node) for node in nodes):
        return True
    apart = [node.node for node in nodes if isinstance(node, Atomic)]
    apart += [node.inner for node in nodes if isinstance(node, Check) and node.inner is not None]
    return any(_steps(each) > _MOST_STEPS for each in (tree, *apart))


def _is_ambiguous(repeat: Repeat) -> bool:
    """Whether a text of several turns can be cut into turns in more ways than can be tried."""
    if repeat.high <= 1:
        return False
    words = words_of(repeat.node)
    if words is None:
        return _has_choice(repeat.node) and (repeat.high > repeat.low or repeat.high > _MOST_TURNS)
    return _ways(words, repeat.high) > _FEW_WAYS and not is_unique(words)


def _ways(words: Sequence[Word], turns: int) -> int:
    """In how many ways turns can be taken, at most."""
    ways: int = len(words) ** min(turns, _MANY_TURNS)
    return ways


def _has_choice(node: Node) -> bool:
    """Whether it can match in several ways at one place; what is atomic cannot."""
    match node:
        case Chars() | Check() | Atomic() | Same():
            return False
        case Row(nodes):
            return any(map(_has_choice, nodes))
        case Choice():
            return True
        case Repeat(inner, low, high):
            return low < high or _has_choice(inner)


def is_unique(words: Sequence[Word]) -> bool:
    """Whether a text made of such words can be cut into them in one way only.

    By the test of Sardinas and Patterson, with sets in the place of letters: what is left of one
    word when another one ends, in turn, never comes to be a word.
    """
    rests: set[Word] = set()
    for place, one in enumerate(words):
        if not one or any(_fits(one, two) and len(one) == len(two) for two in words[:place]):
            return False
        rests |= {rest for two in words if (rest := _rest(one, two))}
    seen: set[Word] = set()
    while rests:
        rest = rests.pop()
        seen.add(rest)
        for word in words:
            if len(word) == len(rest) and _fits(word, rest):
                return False
            left = _rest(word, rest) or _rest(rest, word)
            if left and left not in seen:
                rests.add(left)
    return True


def _fits(one: Word, two: Word) -> bool:
    return all(mine & others for mine, others in zip(one, two, strict=False))


def _rest(one: Word, two: Word) -> Word | None:
    """What is left of the second, if the first is shorter and both may begin alike."""
    return two[len(one) :] if len(one) < len(two) and _fits(one, two) else None


def _steps(node: Node) -> int:
    """About how many steps a search takes in a long line, at worst."""
    return sum(_steps_of((_START, *path)) for path in _paths(node))


def _steps_of(path: _Path) -> int:
    """The longest chain of parts that can match the same text, each in as many ways as it can."""
    end = next((n for n in range(len(path), 0, -1) if _can_fail(path[n - 1])), 0)
    most = [1] * end
    for place, part in enumerate(path[:end]):
        before = [most[other] // gap for other, gap in _sharing(path, place)]
        most[place] = max(1, part.ways * max(before, default=1))
    return max(most, default=1)


def _can_fail(part: _Part) -> bool:
    return part.is_needed or not part.mask


def _sharing(path: _Path, place: int) -> Iterator[tuple[int, int]]:
    """Earlier parts that can match what this one can, and how much has to stand between them."""
    common, gap = path[place].mask, 0
    if path[place].ways == 1:
        return
    between: list[int] = []
    for other in range(place - 1, -1, -1):
        part = path[other]
        shared = part.mask & common
        if part.ways > 1 and shared and all(shared & mask for mask in between):
            yield other, max(gap, 1)
        if part.is_needed:
            between.append(part.mask)
            gap += 1
            if not part.mask & common:
                return


def _paths(node: Node) -> list[_Path]:
    """The ways through an expression, choices taken."""
    match node:
        case Row(nodes):
            return reduce(_in_a_row, map(_paths, nodes), _NOTHING)
        case Choice(nodes):
            found = [path for each in nodes for path in _paths(each)]
            return found if len(found) <= _MOST_PATHS else [(_Part(_mask_of(node), len(found)),)]
        case Repeat(inner, low, high):
            return _repeated_paths(inner, low, high)
        case _:
            return [_single(node)]


def _single(node: Chars | Check | Same | Atomic) -> _Path:
    match node:
        case Chars(mask):
            return (_Part(mask),)
        case Check():
            return (_CHECK,)
        case Same():
            return (_Part(ANY.mask, _LENGTH, is_needed=False), _CHECK)  # compared anew each time
        case Atomic(inner):
            ways = _LENGTH if _is_endless(inner) else 1  # it is gone through each time
            return (_Part(_mask_of(inner), ways, is_needed=False), _CHECK)


def _in_a_row(one: list[_Path], two: list[_Path]) -> list[_Path]:
    if len(one) * len(two) <= _MOST_PATHS:
        return [first + second for first, second in product(one, two)]
    few, many = sorted((one, two), key=len)
    mask = _union(part.mask for path in many for part in path)
    some: list[_Path] = [(_Part(mask, len(many)),)]
    return _in_a_row(some, few) if many is one else _in_a_row(few, some)


def _repeated_paths(inner: Node, low: int, high: int) -> list[_Path]:
    words = words_of(inner) if 1 < high < ENDLESS else None
    if words is not None and not is_unique(words):
        return [(_Part(_mask_of(inner), _ways(words, high), is_needed=low > 0),)]
    if _is_endless(inner) and not _has_choice(inner):  # all turns are one way through the text
        return [_single(Atomic(inner))]
    turns = min(low, _MOST_TURNS)
    needed = reduce(_in_a_row, [_paths(inner)] * turns, _NOTHING) if turns else _NOTHING
    if low == high:
        return needed
    ways = _LENGTH if high >= ENDLESS else min(high - low + 1, _LENGTH)
    more: list[_Path] = [(_Part(_mask_of(inner), ways, is_needed=False),)]
    return _in_a_row(needed, more)


def _is_endless(node: Node) -> bool:
    return any(isinstance(each, Repeat) and each.high >= ENDLESS for each in nodes_in(node))


def _mask_of(node: Node) -> int:
    return _union(each.mask for each in nodes_in(node) if isinstance(each, Chars))


def _union(masks: Iterable[int]) -> int:
    return reduce(int.__or__, masks, 0)
