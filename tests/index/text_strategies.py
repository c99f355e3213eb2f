"""Hypothesis strategies for texts in many scripts, and for terms that may occur in them."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from amux.index.text.plan import TermKind
from amux.model.words import fold, fold_spaces

_ALPHABETS = (
    "ab_1 ",
    "abAB12_ .,-\n\t\x00\x1f\x7f",
    "aéÀçñß½ﬁİŉ\u0131\u017f\u212a\u2019— \u0301\u0308",
    "検索構築日本語々〆〇ーあかがパハ゛゜ｶﾞ\u3099\u309a・、。 ",
    "a1_検索がパ ",
    "한국어 하나 ㅎㅏㄴ",
    "हिन्दी कि ไทย العَرَبِيَّة Ж ж Σσς Ꭰꭰ",
    "😀👍🏽1\ufe0f\u20e3├──│∞²①Ⅳ",
    "\ud800\udfff\ue000\uffff\u9fff\U000323af\U00020000 a",
)
alphabets = st.sampled_from(_ALPHABETS)

texts = st.one_of(
    alphabets.flatmap(lambda letters: st.text(letters, max_size=24)),
    st.text(st.sampled_from("".join(_ALPHABETS)), max_size=24),
    st.text(max_size=12),
)


@st.composite
def terms(draw: st.DrawFn, said: list[str]) -> tuple[TermKind, str]:
    """A term, mostly cut out of one of the texts."""
    kind: TermKind = draw(st.sampled_from(("word", "prefix", "phrase", "literal")))
    source = draw(st.sampled_from(said)) if said and draw(st.booleans()) else draw(texts)
    text = fold_spaces(fold(source))
    start = draw(st.integers(0, len(text)))
    term = text[start : draw(st.integers(start, len(text)))].strip()
    words = re.findall(r"\w+", term) or ["a"]
    return kind, " ".join(words) if kind == "phrase" or words == ["a"] else term
