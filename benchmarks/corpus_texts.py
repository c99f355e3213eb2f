"""The texts of the synthetic sessions: prose, code, logs, and bytes that are not text.

All texts are slices of stocks that are generated once per process from the seed, so that two
gigabytes are written in a minute. Words follow Zipf's law, so that searches have frequent and rare
hits.
"""

from __future__ import annotations

import itertools
import random
from functools import cache
from typing import Final, NamedTuple

_SYLLABLES: Final = """
    ba be bo da de di do fa fi ga ge go ha he ja jo ka ke ko la le lo lu ma me mo na ne no pa
    pe po ra re ri ro sa se so ta te to va ve vi wa ya zo ver ion tra ple ster form
"""
_FREQUENT: Final = """
    the to and a of in is it that for you with this on as be are we can not if should will
    have use from file test error by or an code function add so need now at run but all fix
    when line let data value name first new one also only which then set type return get list
    check make user change work there other class time build path string update call read
    write output input config server database request response session token index query
    search cache version import module async handler parser schema migration endpoint refactor
    deadlock latency snapshot rollback serializer middleware webhook pagination regression
    fixture coverage dependency container
"""
_IDEOGRAPHS: Final = "日本語のコードを修正してテストを実行しますデータ错误处理请求会话文件性能优化"
_WORDS: Final = 30_000
_NAMING: Final = 8000  # of them, the most frequent
_SENTENCES: Final = 16_000
_LINES: Final = 12_000
_NOISE: Final = 600_000
_SENTENCE: Final = 72  # characters, on average
_BASE64: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


class ToolText(NamedTuple):
    """The output of a tool, and the kind of tool."""

    tool: str  # read, shell or edit
    text: str


class Texts:
    """The stocks; every method takes the randomness of the session it writes for."""

    def __init__(self, seed: str) -> None:
        chance = random.Random(f"{seed}/texts")
        self.words = _vocabulary(chance)
        self._sentences = _sentences(chance, self.words)
        self._code = [_code_line(chance, self.words) for _ in range(_LINES)]
        self.paths: list[str] = [f"src/{_name(chance, self.words)}.py" for _ in range(2000)]
        self._noise = "".join(chance.choices(_BASE64, k=_NOISE))
        self.folders = [f"/home/dev/src/{_name(chance, self.words)}" for _ in range(60)]
        self.instructions = self.prose(chance, 21_000)
        self.attachments = self.prose(chance, 12_500), self.prose(chance, 26_000)
        self.request = self.prose(chance, 34_000)

    def prose(self, chance: random.Random, length: int) -> str:
        """Return sentences of about `length` characters in total."""
        return " ".join(_slice(chance, self._sentences, max(1, length // _SENTENCE)))

    def code(self, chance: random.Random, lines: int) -> str:
        """Return the given number of lines of a program."""
        return "\n".join(_slice(chance, self._code, lines))

    def noise(self, chance: random.Random, length: int) -> str:
        """Return random base64: signatures, images, encrypted reasoning."""
        return "".join(_slice_text(chance, self._noise, length))

    def prompt(self, chance: random.Random, *, in_ideographs: bool) -> str:
        """Return a prompt."""
        if in_ideographs and chance.random() < 0.5:
            return f"{self.ideographs(chance)} ✅ {self.prose(chance, 80)}"
        text = self.prose(chance, int(chance.lognormvariate(4.9, 0.8)))
        if chance.random() < 0.06:
            text += f"\n\n```\n{self.code(chance, chance.randint(20, 200))}\n```"
        return text

    def ideographs(self, chance: random.Random) -> str:
        """Return a few characters of a script without spaces."""
        start = chance.randrange(len(_IDEOGRAPHS) - 12)
        return _IDEOGRAPHS[start : start + chance.randint(6, 12)]

    def answer(self, chance: random.Random, *, is_last: bool) -> str:
        """Return an answer of a model, longer at the end of a turn."""
        text = self.prose(chance, int(chance.lognormvariate(6.6 if is_last else 5.6, 0.8)))
        if chance.random() < 0.15:
            text += f"\n\n```python\n{self.code(chance, chance.randint(4, 30))}\n```\n"
        return text

    def tool_text(self, chance: random.Random, *, is_large: bool) -> ToolText:
        """Return the output of a tool: from a line to 100 KB, mostly a few KB."""
        length = int(min(100_000, max(120, chance.lognormvariate(8.0 if is_large else 7.2, 1.2))))
        kind = chance.random()
        if kind < 0.40:
            lines = self.code(chance, max(3, length // 40)).split("\n")
            numbered = "\n".join(f"{number:6d}→{line}" for number, line in enumerate(lines, 1))
            return ToolText("read", numbered)
        if kind < 0.92:
            return ToolText("shell", self._log(chance, max(2, length // 90)))
        return ToolText("edit", self.code(chance, max(3, min(120, length // 40))))

    def _log(self, chance: random.Random, lines: int) -> str:
        """Return lines that no other session has: each contains unique numbers."""
        state: int = chance.getrandbits(64)
        written: list[str] = []
        for said in _slice(chance, self._sentences, lines):
            state = (state * 6364136223846793005 + 1442695040888963407) & (2**64 - 1)
            path = self.paths[state % 2000]
            match state >> 62:
                case 0:
                    written.append(f"{path}:{state % 1999}:{said.strip()}")
                case 1:
                    written.append(f"INFO request={state >> 16:012x} took={state % 5000}ms {said}")
                case 2:
                    written.append(f"{path}::test_{state % 997} PASSED [{state % 100:3d}%]")
                case _:
                    written.append(f"\x1b[32m✓\x1b[0m {path} 0x{state:016x}")
        return "\n".join(written)


@cache
def texts(seed: str) -> Texts:
    """Return the stocks of a seed, created once per process."""
    return Texts(seed)


def _vocabulary(chance: random.Random) -> list[str]:
    words, syllables = dict.fromkeys(_FREQUENT.split()), _SYLLABLES.split()
    while len(words) < _WORDS:
        words.setdefault("".join(chance.choices(syllables, k=chance.choice((2, 3, 3, 4)))))
    return list(words)


def _sentences(chance: random.Random, words: list[str]) -> list[str]:
    weights = list(itertools.accumulate(1 / (rank + 2.7) ** 1.05 for rank in range(len(words))))
    drawn = iter(chance.choices(words, cum_weights=weights, k=_SENTENCES * 14))
    made: list[str] = []
    for _ in range(_SENTENCES):
        some = list(itertools.islice(drawn, chance.randint(5, 22)))
        ending = chance.choice((".", ".", ".", ":", "?", ".\n\n", "\n-"))
        made.append(" ".join(some).capitalize() + ending)
    return made


def _code_line(chance: random.Random, words: list[str]) -> str:
    indent = "    " * chance.choice((0, 1, 1, 1, 2, 2, 3))
    one, two, three = (_name(chance, words) for _ in range(3))
    number = chance.randint(0, 99_999)
    return chance.choice(
        (
            f"def {one}(self, {two}: str, {three}: int = {number}) -> None:",
            f'{indent}{one} = self.{two}({three}, "{number}")',
            f"{indent}if {one} is None and {two} > {number}:",
            f'{indent}return {{"{one}": {two}, "{three}": {number}}}',
            f"{indent}const {{ {one} }} = await {two}(`${{{three}}}/{number}`);",
            f'{indent}assert {one} == "{two}" and "usage" not in {three}',
            "",
        )
    )


def _name(chance: random.Random, words: list[str]) -> str:
    count = chance.choice((1, 2, 2))
    return "_".join(words[chance.randrange(_NAMING)] for _ in range(count))


def _slice(chance: random.Random, stock: list[str], count: int) -> list[str]:
    start, taken = chance.randrange(len(stock)), list[str]()
    while len(taken) < count:
        taken += stock[start : start + count - len(taken)]
        start = 0
    return taken


def _slice_text(chance: random.Random, stock: str, length: int) -> list[str]:
    taken: list[str] = []
    while length > 0:
        start = chance.randrange(len(stock) - 1000)
        taken.append(stock[start : start + length])
        length -= len(taken[-1])
    return taken
