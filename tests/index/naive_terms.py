"""A second, naive implementation of matching a term: it scans every text."""

from __future__ import annotations

import re

from amux.index.text.plan import TermKind
from amux.model.words import fold, fold_spaces


def holds(kind: TermKind, folded: str, text: str) -> bool:
    """Whether a text holds a term, by the definitions alone."""
    target = fold(text)
    match kind:
        case "word":
            return folded in target
        case "prefix":
            return re.search(rf"(?<!\w){re.escape(folded)}", target) is not None
        case "phrase":
            words = re.findall(r"\w+", folded)
            pattern = r"\W+".join(map(re.escape, words))
            return re.search(rf"(?<!\w){pattern}(?!\w)", target) is not None
        case "literal":
            return folded in fold_spaces(target)
        case "regex":
            return re.search(folded, text, re.IGNORECASE) is not None
