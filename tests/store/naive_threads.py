"""The rules of a thread, told a second time: lists that are read from the beginning.

It shares nothing with the package. A thread is a list of entries; every question is answered by
going through all of them in order, which is slow and easy to check by eye.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Entry:
    """A record: `number` orders it, also among records that a vacuum has removed since."""

    number: int
    kind: str  # meta, item, summary, hide, unhide, correction, title or note
    id: str | None = None
    role: str = ""
    content: str = ""
    first_kept: int | None = None
    ids: tuple[str, ...] = ()
    first: int = 0
    last: int = 0
    searchable: bool = False
    target: str | None = None
    title: str | None = None


@dataclass
class Shown:
    """An item as the records after it have left it."""

    entry: Entry
    content: str
    hidden_by: dict[str | None, bool] = field(default_factory=dict[str | None, bool])
    is_replaced: bool = False

    def take(self, later: Entry) -> None:
        """Take a later entry into account."""
        if later.kind in {"item", "summary"}:
            self.is_replaced |= self.entry.id == later.id
        elif later.kind == "hide":
            is_between = later.first <= self.entry.number <= later.last
            if self.entry.id in later.ids or is_between:
                self.hidden_by[later.id] = later.searchable
        elif later.kind == "unhide":
            self.hidden_by.pop(later.target, None)
        elif later.kind == "correction" and later.target == self.entry.id and not self.is_replaced:
            self.content = later.content

    @property
    def is_visible(self) -> bool:
        return not self.is_replaced and not self.hidden_by

    @property
    def is_found(self) -> bool:
        return not self.is_replaced and all(self.hidden_by.values())

    @property
    def message(self) -> dict[str, Any]:
        if self.entry.kind == "summary":
            text = f"<summary>\n{self.content}\n</summary>"
            return {"role": "user", "content": text}
        return {"role": self.entry.role, "content": self.content}


class NaiveThread:
    """The entries of one thread."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.is_archived = False
        self._count = 0
        self.add("meta")

    def add(self, kind: str, **fields: Any) -> Entry:
        self._count += 1
        entry = Entry(self._count, kind, **fields)
        self.entries.append(entry)
        return entry

    def add_hide(self, id: str, *, first: int = 1, searchable: bool = False) -> None:
        """Hide everything from a number on."""
        self.add("hide", id=id, first=first, last=self._count, searchable=searchable)

    def has(self, id: str) -> bool:
        return any(entry.id == id for entry in self.entries)

    def items(self) -> list[Shown]:
        """All items in order, with what later entries did to them."""
        found: list[Shown] = []
        for entry in self.entries:
            for item in found:
                item.take(entry)
            if entry.kind in {"item", "summary"}:
                found.append(Shown(entry, entry.content))
        return found

    def visible(self) -> list[Shown]:
        return [item for item in self.items() if item.is_visible]

    def conversation(self) -> list[Shown]:
        visible = self.visible()
        summaries = [item for item in visible if item.entry.kind == "summary"]
        if not summaries:
            return visible
        summary = summaries[-1]
        number, first = summary.entry.number, summary.entry.first_kept
        shown = [summary]
        for item in visible:
            is_kept = first is not None and first <= item.entry.number < number
            if item.entry.number > number or (is_kept and item.entry.kind == "item"):
                shown.append(item)
        return shown

    @property
    def title(self) -> str | None:
        titles = [entry.title for entry in self.entries if entry.kind == "title"]
        return titles[-1] if titles else None

    def last_hide(self) -> str | None:
        undone = {entry.target for entry in self.entries if entry.kind == "unhide"}
        hides = [entry.id for entry in self.entries if entry.kind == "hide"]
        return next((id for id in reversed(hides) if id not in undone), None)

    def vacuum(self, erased: frozenset[str]) -> int:
        """Remove what neither a reader nor a search can see; return how many records went."""
        gone = {item.entry.number for item in self.items() if not item.is_found}
        gone |= {e.number for e in self.entries if e.id in erased or e.target in erased}
        before = len(self.entries)
        self.entries = [entry for entry in self.entries if entry.number not in gone]
        return before - len(self.entries)

    def search(self, word: str, *, inactive: bool) -> set[str | None]:
        return {
            item.entry.id
            for item in self.items()
            if word in item.content.split()
            and (item.is_found or (inactive and not item.is_replaced))
        }


def following_title(title: str, titles: list[str | None]) -> str:
    """The title that a copy gets: X, X #2, X #3."""

    def split(each: str) -> tuple[str, int]:
        match = re.fullmatch(r"(.*) #(\d+)", each)
        return (match[1], int(match[2])) if match else (each, 1)

    base = split(title)[0]
    numbers = [split(each)[1] for each in titles if each is not None and split(each)[0] == base]
    return f"{base} #{max(numbers) + 1}"
