"""Mutations that keep most of a record well-formed: only those reach the code behind the decoder.

An input is a log of JSON lines, one JSON document or anything else. A JSON line is mutated within
its tree, also inside strings that contain JSON; libFuzzer mutates the rest.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

Node = tuple[Any, Any]
"""A container and the key or index of one of its values."""

DEEP = "@deep@"
"""Stands for a value nested deeper than any decoder recurses; `json` itself could not write it."""
OVERFLOW = "@overflow@"
_WRITTEN_LATER = {
    f'"{DEEP}"': "[" * 4000 + "]" * 4000,
    f'"{OVERFLOW}"': "1e999",
}
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**30, 10**400),
    *(0.5, -0.0, 1e-320, 1.7e308, float("nan"), float("inf"), OVERFLOW),
    *("", " ", "\x00", "\ud800", "a\udfffb", "\u2028", "\ufeff", "\U0010ffff", "x" * 5000),
    *("0", "-1", "1e999", "NaN", "9" * 5000, "٣", "½", "{}", "[", "null", '{"a":[1', "../../x"),
    *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999-23:59", "2026-02-30T00:00:00Z"),
    *("2026-01-01T00:00:00+24:00", "2026-01-01T24:00:00Z", "2026-01-01", 8.64e15, -62135596801),
    *([], {}, [None], [[]], [{}], {"": None}, {"type": None}, {"text": 1}, [""], DEEP),
)
LINE_ENDS = (b"\n", b"\r\n", b"\n\n", b"\x00\n", b"")


class Mutator:
    """Mutates inputs; words and lines of all seeds are its dictionary."""

    def __init__(self, seeds: Iterable[bytes], mutate_bytes: Callable[[bytes, int], bytes]) -> None:
        self._mutate_bytes = mutate_bytes
        self._lines = [line for seed in seeds for line in seed.splitlines() if line.strip()]
        words = {word for line in self._lines for word in _words(_parsed(line))}
        self._words = sorted(words) or [""]

    def __call__(self, data: bytes, max_size: int, seed: int) -> bytes:
        """Return the next input; the first byte identifies the slot and stays."""
        chance = random.Random(seed)
        place, body = data[:1], data[1:]
        if chance.random() < 0.15:
            return place + self._mutate_bytes(body, max_size - 1)
        for _ in range(chance.choice((1, 1, 1, 2, 3, 5))):
            body = self._change(body, chance)
        return place + body[: max_size - 1]

    def _change(self, body: bytes, chance: random.Random) -> bytes:
        whole = _parsed(body)
        if isinstance(whole, (dict, list)):
            return self._change_tree(whole, chance)
        lines = body.splitlines(keepends=True)
        if not lines or chance.random() < 0.25:
            return b"".join(self._change_order(lines, chance))
        hit = chance.randrange(len(lines))
        tree = _parsed(lines[hit])
        if isinstance(tree, (dict, list)):
            lines[hit] = self._change_tree(tree, chance) + b"\n"
        else:
            lines[hit] = self._mutate_bytes(lines[hit], len(lines[hit]) + 64)
        return b"".join(lines)

    def _change_order(self, lines: Sequence[bytes], chance: random.Random) -> list[bytes]:
        """Insert, repeat, remove, move, cut or join lines."""
        at = chance.randrange(len(lines) + 1)
        if at == len(lines) or chance.random() < 0.3:
            line = chance.choice(self._lines) + b"\n" if self._lines else b"{}\n"
            return [*lines[:at], line, *lines[at:]]
        line, rest = lines[at], [*lines[:at], *lines[at + 1 :]]
        match chance.randrange(5):
            case 0:
                return rest
            case 1:
                return [*lines[:at], line, *lines[at:]]
            case 2:
                to = chance.randrange(len(lines))
                return [*rest[:to], line, *rest[to:]]
            case 3:
                return [*lines[:at], line[: chance.randrange(len(line))], *lines[at + 1 :]]
            case _:
                end = chance.choice(LINE_ENDS)
                return [*lines[:at], line.rstrip(b"\r\n") + end, *lines[at + 1 :]]

    def _change_tree(self, tree: Any, chance: random.Random) -> bytes:
        holder = [tree]
        for _ in range(chance.choice((1, 1, 2, 4))):
            nodes = list(_nodes(holder))
            self._change_node(chance.choice(nodes), nodes, chance)
        return _written(holder[0])

    def _change_node(self, node: Node, nodes: Sequence[Node], chance: random.Random) -> None:
        container, key = node
        if isinstance(container, list) and key >= len(container):
            return
        if isinstance(container, dict) and key not in container:
            return
        value = container[key]
        if isinstance(value, str) and value[:1] in {"{", "["} and chance.random() < 0.8:
            inner = _parsed(value.encode("utf-8", "surrogatepass"))
            if isinstance(inner, (dict, list)):
                container[key] = self._change_tree(inner, chance).decode("utf-8", "replace")
                return
        match chance.randrange(4):
            case 0 | 1:
                container[key] = json.loads(json.dumps(chance.choice(ODD_VALUES)))
            case 2:
                container[key] = self._known(nodes, chance)
            case _:
                _reshape(container, key, chance)

    def _known(self, nodes: Sequence[Node], chance: random.Random) -> Any:
        """Return a word of the format, or a copy of another value of the same record."""
        if chance.random() < 0.5:
            return chance.choice(self._words)
        container, key = chance.choice(nodes)
        try:
            return json.loads(json.dumps(container[key]))
        except (IndexError, KeyError, RecursionError):
            return None


def _reshape(container: Any, key: Any, chance: random.Random) -> None:
    """Remove a value, wrap it, repeat it or change it a little."""
    value = container[key]
    match chance.randrange(5):
        case 0 if not isinstance(container, list) or len(container) > 1:
            del container[key]
        case 1:
            container[key] = [value]
        case 2:
            container[key] = {chance.choice(("text", "type", "content", "id")): value}
        case 3 if isinstance(container, list):
            container.insert(key, json.loads(json.dumps(value)))
        case _:
            container[key] = _nudged(value, chance)


def _nudged(value: Any, chance: random.Random) -> Any:
    if isinstance(value, bool) or value is None:
        return chance.choice((None, True, False, 0, "true"))
    if isinstance(value, int) and abs(value) >= 1 << 64:
        return 0
    if isinstance(value, int):
        other = chance.randrange(1 << 16)
        return chance.choice((-value, value + 1, value * 1000, value / 7, str(value), other, other))
    if isinstance(value, float):
        return chance.choice((-value, int(value) if abs(value) < 1e18 else 0, str(value)))
    if isinstance(value, str):
        cut = chance.randrange(len(value) + 1)
        return chance.choice((value[:cut], value[cut:], value * 2, value[:cut] + "\ud800", [value]))
    return chance.choice((None, [], {}, "", 0))


def _nodes(tree: Any) -> Iterator[Node]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        yield tree, key
        if isinstance(value, (dict, list)):
            yield from _nodes(value)


def _parsed(data: bytes) -> Any:
    """Return the JSON value of bytes; None if they hold none, or one too deep to mutate."""
    try:
        return json.loads(data) if data.count(b"[[[[[[[[") == 0 else None
    except (ValueError, RecursionError):
        return None


def _written(tree: Any) -> bytes:
    text = json.dumps(tree, separators=(",", ":"))
    for token, value in _WRITTEN_LATER.items():
        text = text.replace(token, value)
    return text.encode()


def _words(tree: Any) -> Iterator[str]:
    """Yield keys and short texts: the words of a format."""
    if isinstance(tree, dict):
        yield from (key for key in tree if len(key) <= 40)
        for value in tree.values():
            yield from _words(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _words(value)
    elif isinstance(tree, str) and len(tree) <= 40:
        yield tree
