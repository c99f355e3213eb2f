r"""Words of a text: folding of texts for comparison, and tokens for an index.

Texts are compared folded: in lower case, without accents. A word is a run of letters, digits and
underscores (`\w`) of the folded text. Chinese and Japanese have no spaces between words, so such
runs are cut into overlapping pairs of characters and the last single one: every character begins
exactly one token. Korean needs no such cuts: it has spaces, and folding decomposes its syllables.

A token carries `JOINT` where the run continues beyond it, so that a token without `JOINT` is a
whole word:

    fix 検索構築     fix, 検索, 索構, 構築, 築
    bug修正fix_it   bug<JOINT>, 修正, 正, <JOINT>fix_it

A run of thousands of letters (encoded data) is cut into pieces that overlap, with `JOINT` at the
cuts.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

JOINT: Final = "\x7f"
"""A character in a token, though not part of a word: the run continues here."""

PIECE: Final = 8000
"""The maximum length of a token in characters: FTS5 can store it whatever the characters are."""

OVERLAP: Final = 1000
"""The characters that two pieces of one run share: a shorter text lies within one of them."""

_ACCENTS: Final = re.compile("[\u0300-\u036f]+")
_IDEOGRAPHIC: Final = (
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3041-\u3096\u309d-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U0001aff0-\U0001b16f\U00020000-\U000323af"
)
_VOICING: Final = "\u3099\u309a"
"""The voicing marks that folding separates (が from か); not `\\w`, but part of a kana."""

_IDEOGRAM: Final = rf"(?!\W)[{_IDEOGRAPHIC}]"  # without unassigned code points
_SEGMENT: Final = re.compile(
    rf"(?P<ideographs>{_IDEOGRAM}(?:{_IDEOGRAM}|[{_VOICING}])*)|[^\W{_IDEOGRAPHIC}]+"
)
_IDEOGRAPH: Final = re.compile(f"[{_IDEOGRAPHIC}]")
_NO_WORD: Final = re.compile(r"[^\w\x00-\x7f]+")
_BLOCK: Final = PIECE // 2
_LONG_BLOCK: Final = re.compile(rf"\w{{{_BLOCK}}}")
_STORED_TOKEN: Final = re.compile(rb"[0-9a-z_\x7f-\xff]+")
_REMEMBERED_LENGTH: Final = 24
_REMEMBERED_RUNS: Final = 8192


def fold(text: str) -> str:
    """Return the form in which texts are compared: lower case, without accents."""
    if text.isascii():
        return text.lower()
    # ASCII characters neither combine nor decompose: the runs between them are folded separately.
    return text.encode("ascii", _FOLD_RUNS).lower().decode("utf-8", "surrogatepass")


def fold_in_place(text: str) -> str | None:
    """Return a text of equal length in which ASCII words are folded at their original offsets.

    None if folding would turn other characters into ASCII or change their number.
    """
    if text.isascii():
        return text.lower()
    data = text.encode("utf-8", "surrogatepass")
    foreign = data.translate(None, _ASCII).decode("utf-8", "surrogatepass")
    if not all(map(_INERT.__getitem__, set(foreign))):
        return None
    return data.lower().decode("utf-8", "surrogatepass")  # ten times as fast as `str.lower`


def fold_spaces(text: str) -> str:
    """Replace every run of white space by one space, and strip the ends."""
    return " ".join(text.split())


class Segment(NamedTuple):
    """A part of a run of word characters that holds only ideographs or none.

    `joined` and `goes_on` say whether a word character directly precedes or follows it.
    """

    text: str
    is_ideographic: bool
    start: int
    end: int
    joined: bool
    goes_on: bool


def segments(folded: str) -> Iterator[Segment]:
    """Yield the segments of a folded text in order."""
    for match in _SEGMENT.finditer(folded):
        start, end = match.span()
        before, behind = folded[start - 1 : start], folded[end : end + 1]
        yield Segment(
            match[0],
            match["ideographs"] is not None,
            start,
            end,
            _continues(before),
            _continues(behind),
        )


def words(text: str) -> list[str]:
    """Return the tokens of a text in order."""
    return list(_tokens(fold(text)))


def token_text(text: str) -> str:
    """Return a text whose runs of `A-Za-z0-9_`, `JOINT` and non-ASCII characters are the tokens.

    ASCII letters keep their case. A plain ASCII text is returned almost unchanged and at no cost.
    """
    plain = text.replace(JOINT, " ") if JOINT in text else text
    if not plain.isascii():
        # ASCII characters neither combine nor decompose: the runs between them are folded
        # separately. The encoder finds them three times faster than a regular expression.
        plain = plain.encode("ascii", _FOLD_FOREIGN).decode()
        if JOINT in plain:
            return " ".join(_tokens(fold(text)))
    if len(plain) > PIECE and _has_long_run(plain):
        return " ".join(_tokens(fold(text)))
    return plain


def stored_tokens(prepared: str) -> set[str]:
    """Return the distinct tokens in a result of `token_text`."""
    # `bytes.lower` changes only ASCII letters: the other characters are folded already.
    return {token.decode() for token in _STORED_TOKEN.findall(prepared.encode().lower())}


def ideograph_tokens(text: str) -> list[str]:
    """Return the overlapping pairs and the last character of a segment of ideographs."""
    return [text[index : index + 2] for index in range(len(text))]


def _continues(character: str) -> bool:
    return character.isalnum() or character == "_"


def _tokens(folded: str) -> Iterator[str]:
    for segment in segments(folded):
        if segment.is_ideographic:
            yield from ideograph_tokens(segment.text)
        else:
            marked = (JOINT if segment.joined else "") + segment.text
            yield from _pieces(marked + (JOINT if segment.goes_on else ""))


def _pieces(token: str) -> Iterator[str]:
    if len(token) <= PIECE + 2:
        yield token
        return
    last = len(token) - PIECE
    for start in range(0, last + PIECE - OVERLAP, PIECE - OVERLAP):
        begin = JOINT if start > 0 else ""
        yield begin + token[start : start + PIECE] + (JOINT if start < last else "")


class _Runs(dict[str, bytes]):
    """Maps runs of non-ASCII characters to their replacement; short runs are cached."""

    def __init__(self, replace: Callable[[str], bytes]) -> None:
        super().__init__()
        self._replace = replace

    def __missing__(self, run: str) -> bytes:
        replacement = self._replace(run)
        if len(run) <= _REMEMBERED_LENGTH and len(self) < _REMEMBERED_RUNS:
            self[run] = replacement
        return replacement

    def encode(self, error: UnicodeError) -> tuple[bytes, int]:
        """Encode the run that is not ASCII, as an error handler of `codecs`."""
        if not isinstance(error, UnicodeEncodeError):
            raise error
        return self[error.object[error.start : error.end]], error.end


def _fold_run(run: str) -> bytes:
    plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", run)).casefold()
    return plain.encode("utf-8", "surrogatepass")


_FOLD_RUNS: Final = "amux.fold-runs"
codecs.register_error(_FOLD_RUNS, _Runs(_fold_run).encode)


class _Inert(dict[str, bool]):
    """Maps a character to whether folding yields one non-ASCII character of the same word class."""

    def __missing__(self, character: str) -> bool:
        folded = fold(character)
        is_other = len(folded) == 1 and not folded.isascii()
        is_inert = is_other and folded.isalnum() == character.isalnum()
        if len(self) < _REMEMBERED_RUNS:
            self[character] = is_inert
        return is_inert


_INERT: Final = _Inert()
_ASCII: Final = bytes(range(128))


def _fold_foreign(run: str) -> bytes:
    """Return the folded words of a run separated by spaces; `JOINT` if it has ideographs."""
    folded = fold(run)
    has_ideographs = _IDEOGRAPH.search(folded) is not None
    return (JOINT if has_ideographs else _NO_WORD.sub(" ", folded)).encode()


_FOLD_FOREIGN: Final = "amux.fold-foreign"
codecs.register_error(_FOLD_FOREIGN, _Runs(_fold_foreign).encode)


def _has_long_run(text: str) -> bool:
    """Return whether a word may be too long to be stored: such a word fills one of the blocks."""
    return any(_LONG_BLOCK.match(text, start) for start in range(0, len(text), _BLOCK))
