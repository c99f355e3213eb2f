"""The adapter protocol is the list of ADR 14, no more and no less."""

from __future__ import annotations

import re

from source_tree import ROOT

from amux.adapters import _base
from amux.adapters._kit.related import FindsRelated

RECORD = ROOT / "docs" / "adr" / "0014-adapter-protocol.md"
_ROW = re.compile(r"^\| `(\w+)` \| ((?:`\w+`(?:, )?)+) \| [^|]+ \| (\d{4}) \|$", re.MULTILINE)
PROTOCOLS: dict[str, type] = {
    **{name: value for name, value in vars(_base).items() if getattr(value, "_is_protocol", False)},
    "FindsRelated": FindsRelated,
}
NOT_ADAPTERS = {"Protocol", "Selection"}  # what `select` returns


def members(protocol: type) -> set[str]:
    found = {*vars(protocol), *getattr(protocol, "__annotations__", {})}
    return {name for name in found if not name.startswith("_")}


def test_every_protocol_has_the_members_of_the_record() -> None:
    rows = _ROW.findall(RECORD.read_text(encoding="utf-8"))
    recorded = {name: set(re.findall(r"\w+", listed)) for name, listed, _ in rows}
    defined = {name: members(each) for name, each in PROTOCOLS.items() if name not in NOT_ADAPTERS}
    assert defined == recorded


def test_every_member_refers_to_an_existing_record() -> None:
    numbers = {row[2] for row in _ROW.findall(RECORD.read_text(encoding="utf-8"))}
    assert numbers
    assert all([*RECORD.parent.glob(f"{number}-*.md")] for number in numbers)
