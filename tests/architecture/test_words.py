"""Names that had several meanings, or that the store and the runs need, do not come back.

The right column of the glossary (docs/adr/0011-words.md) has the names to use instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from source_tree import SOURCE, defined_names, dotted, modules, parse

RESERVED = {
    "Run": "runs",
    "Store": "store",
    "Thread": "store",
    "turn": "store",
}
"""Words of the store and of the runs, with the package that may define them."""

GONE = frozenset({
    "Alone", "Answers", "Beginning", "Bystander", "Catalogue", "Cell", "Coster", "Direct",
    "EVERYBODY", "Everything", "Figures", "FileChoice", "Finding", "Held", "Holdings", "Hour",
    "IndexDamagedError", "IndexUnusableError", "IndexedAgent", "Joined", "Keeper", "KeptSession",
    "LEAST", "Left", "Library", "LightRow", "Likeness", "Links", "Looks", "Lookup", "Made",
    "MarkedKin", "Omitted", "Outcome", "Pieces", "Progress", "Queryable", "Question", "Readings",
    "Saved", "SessionReader", "Shelf", "Shortlist", "Side", "Sips", "Sketch", "Spot", "Spots",
    "Stated", "Story", "Stretch", "Subject", "TextRest", "Told", "Traits", "UndecodableError",
    "UsualAnswers", "Wanted", "Worth", "_AskedEnvironment", "_LITTLE", "_MUCH", "_Plain",
    "_Recent", "_Seen", "_claim", "_for_people", "_for_programs", "_glance", "_hopeful",
    "_made_anew", "_odd", "_promising", "apart", "beside", "bring_up", "bystanders", "catch_up",
    "closed_door", "conversation_of", "cut_text", "damage_of", "entangled", "everybody",
    "everyone", "fallback", "has_kept_more", "has_marks", "is_watched", "kin", "lost_sessions",
    "needs_lines", "pieces", "place", "places_and_reasons", "propose", "read_chosen", "read_on",
    "refusal", "say_stopped", "scan_texts", "sole_names", "stated_by", "still_hold", "stretches",
    "take_chosen", "take_stock", "take_whole", "takes_cells", "tells", "tie", "unindexed",
    "where_else", "worth_of",
})  # fmt: skip
"""Names that no module defines any more."""

ALIASES = {"adapters._base": {"bystanders"}}
"""Old names that are accepted for one more release (docs/adr/0013-promises.md)."""

OUTSIDE_ADAPTERS = frozenset({
    "Choice", "Conversation", "Entry", "Ledger", "Mark", "Part", "Place", "Tally", "Unread",
    "look", "looks", "mark", "marks", "places", "seen", "spots", "stamp", "stamps", "told",
})  # fmt: skip
"""Names that only an agent's own package may define: there they are the agent's words."""


def own_names(path: Path) -> Iterator[str]:
    is_adapter = path.is_relative_to(SOURCE / "adapters")
    aliases = ALIASES.get(dotted(path), set[str]())
    for name in defined_names(parse(path)):
        if (name in GONE and name not in aliases) or (not is_adapter and name in OUTSIDE_ADAPTERS):
            yield name
        home = RESERVED.get(name)
        if home is not None and not is_adapter and path.relative_to(SOURCE).parts[0] != home:
            yield name


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_a_module_defines_no_name_of_the_old_vocabulary(path: Path) -> None:
    assert sorted(set(own_names(path))) == []
