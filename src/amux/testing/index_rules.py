"""The rules that allow the index to store and update the facts of an adapter.

Stored facts are valid as long as nothing they were read from has changed. A source must therefore
name every file its facts depend on, and a resumed reading must give the result of a complete one.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import ClassVar, Final

from amux.adapters._base import (
    Adapter,
    Item,
    ListFilter,
    Resumable,
    Selection,
    Selective,
    SkippedCounts,
    SourceRef,
)
from amux.model.base import encode_json
from amux.model.facts import Facts
from amux.model.problems import Problem
from amux.testing.captures import Capture
from amux.testing.reading import read_source, sources_of

_COMPANIONS: Final = ("-wal", "-shm", "-journal")
_CUTS: Final = 6


class IndexRules:
    """The rules. `AdapterSuite` inherits them and provides the fixtures."""

    adapter: ClassVar[Adapter]
    captures: ClassVar[list[Capture]]

    def test_a22_facts_depend_on_nothing_but_the_source_and_what_it_names(
        self, home: Path, sources: list[SourceRef], tmp_path: Path
    ) -> None:
        for number, source in enumerate(sources):
            alone = tmp_path / "alone" / str(number)
            moved = _copy_alone(source, home, alone)
            whole = _without_home(read_source(self.adapter, source, "facts").facts, home)
            assert _without_home(read_source(self.adapter, moved, "facts").facts, alone) == whole

    def test_a22_what_a_source_names_lies_in_a_capture_or_is_documented(
        self, tmp_path: Path
    ) -> None:
        named: dict[str, str] = {}
        found: set[str] = set()
        for number, capture in enumerate(self.captures):
            for source in sources_of(self.adapter, capture.copy_to(tmp_path / str(number))):
                for path in source.companions:
                    kind = path.name.replace(source.session_id or source.path.stem, "*")
                    named[kind] = path.relative_to(source.root).as_posix()
                    if path.exists():
                        found.add(kind)
        info = self.adapter.info
        patterns = [each.pattern for each in (*info.ignored_files, *info.bystanders)]
        unheard_of = {
            relative
            for kind, relative in named.items()
            if kind not in found and not any(fnmatch(relative, pattern) for pattern in patterns)
        }
        assert unheard_of == set(), "describe these files in `info.ignored_files`"

    def test_a23_reading_on_equals_reading_at_once(self, sources: list[SourceRef]) -> None:
        if not isinstance(self.adapter, Resumable):
            return  # resuming is optional
        for source in sources:
            if source.path.suffix != ".jsonl" or not source.path.is_file():
                continue  # not a line log
            whole = source.path.read_bytes()
            at_once = _facts_and_problems(self.adapter.read(source, want="facts"))
            for cut in _cuts(whole):
                source.path.write_bytes(whole[:cut])
                checkpoint = self.adapter.resume_read(source, checkpoint=None).checkpoint
                offset = 0 if checkpoint is None else checkpoint.offset
                assert offset <= cut
                assert whole[:offset] == b"" or whole[:offset].endswith(b"\n")
                # The part that was read before must not be needed again, so it is overwritten.
                source.path.write_bytes(b"#" * offset + whole[offset:])
                reading = self.adapter.resume_read(source, checkpoint=checkpoint)
                assert _facts_and_problems([*reading.problems, *reading.facts]) == at_once
            source.path.write_bytes(whole)

    def test_a24_a_choice_of_everything_tells_what_reading_everything_does(
        self, sources: list[SourceRef]
    ) -> None:
        adapter = self.adapter
        if not isinstance(adapter, Selective):
            return  # selecting is optional
        selectable = [source for source in sources if adapter.can_select(source)]
        choice = adapter.select(selectable, ListFilter()) if selectable else None
        if choice is None:
            return  # the adapter may decline to select
        read = _read_all(adapter, choice)
        assert choice.skipped() == SkippedCounts()
        for source in selectable:
            ids = read.get(source, ())
            chosen = [one for one in _facts(adapter.read_selected(source, chosen=ids)) if ids]
            for facts in read_source(adapter, source, "facts").facts:
                assert facts in chosen or not (facts.attributed and facts.addressable)
            for id in ids if len(ids) > 1 else ():
                one = _facts(adapter.read_selected(source, chosen=[id]))
                assert one == [facts for facts in chosen if facts.session_id == id]

    def test_a24_what_a_choice_leaves_out_it_counts(self, sources: list[SourceRef]) -> None:
        adapter = self.adapter
        if not isinstance(adapter, Selective):
            return
        selectable = [source for source in sources if adapter.can_select(source)]
        question = ListFilter(limit=0, children=False, archived=False)
        choice = adapter.select(selectable, question) if selectable else None
        if choice is None:
            return
        chosen = _read_all(adapter, choice)
        read = {(source, id) for source, ids in chosen.items() for id in ids}
        left = {
            (facts.kind == "subagent", facts.parent, facts.session_id)
            for source in selectable
            for facts in read_source(adapter, source, "facts").facts
            if facts.attributed and facts.addressable and (source, facts.session_id) not in read
        }
        assert sum(choice.skipped()) == len(left)
        assert choice.skipped().children == sum(is_child for is_child, _, _ in left)


def _read_all(adapter: Selective, choice: Selection) -> dict[SourceRef, Sequence[str]]:
    """Return the session ids selected in all rounds, by source."""
    found: dict[SourceRef, Sequence[str]] = {}
    chosen = choice.first()
    while chosen:
        assert not found.keys() & chosen.keys(), "a source must not be selected twice"
        found.update(chosen)
        chosen = choice.more(
            [
                (source, facts)
                for source, ids in chosen.items()
                for facts in _facts(adapter.read_selected(source, chosen=ids))
            ]
        )
    return found


def _facts(items: Iterable[Item]) -> list[Facts]:
    return [item for item in items if isinstance(item, Facts)]


def _copy_alone(source: SourceRef, home: Path, target_home: Path) -> SourceRef:
    """Copy a source and the files it names to another home; return the source in that home."""
    companions = (source.path.with_name(source.path.name + end) for end in _COMPANIONS)
    for path in (source.path, *companions, *source.companions):
        target = target_home / path.relative_to(home)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path in source.companions and path.is_dir():
            shutil.copytree(path, target, symlinks=True, dirs_exist_ok=True)
        elif path.is_dir():
            target.mkdir(exist_ok=True)
        elif path.exists():
            shutil.copy2(path, target)
    return source.replace(
        path=target_home / source.path.relative_to(home),
        root=target_home / source.root.relative_to(home),
        companions=tuple(target_home / path.relative_to(home) for path in source.companions),
    )


def _without_home(facts: Iterable[Facts], home: Path) -> bytes:
    """Return facts as bytes that do not depend on the path of the home."""
    return encode_json(list(facts)).replace(encode_json(str(home))[1:-1], b"~")


def _cuts(whole: bytes) -> Iterator[int]:
    """Yield offsets to stop at: the start, inside lines, around the last line feed, the end."""
    yield from (len(whole) * part // _CUTS for part in range(_CUTS + 1))
    last = whole.rstrip(b"\n").rfind(b"\n")
    yield from (max(0, last), last + 1)


def _facts_and_problems(items: Iterable[Item]) -> tuple[list[Facts], set[Problem]]:
    """Return the facts and the problems that concern no session."""
    items = list(items)
    facts = _facts(items)
    of_sessions = {problem for one in facts for problem in one.problems}
    return facts, {item for item in items if isinstance(item, Problem)} - of_sessions
