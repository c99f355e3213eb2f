"""Which transcripts bear on one session: those of its project, told by their heads.

Copies lie in the folder of the original and do not always say whose they are, so the head of every
transcript of the project is read. Whole are read: the session, its sub-agents and titles, what is
named by what was read (in whichever project), its copies and originals and, unless it has a name,
transcripts that may hold a title for it. Sub-agents in the folder of a session say by their place
whose they are; they are not opened for another session.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from amux.adapters._base import Chosen, Question, SourceRef
from amux.adapters._kit.kin import names_of
from amux.adapters._kit.sketches import FileChoice, Sketch
from amux.adapters.claude.heads import begin_of
from amux.adapters.claude.kinship import ClaudeKinship
from amux.adapters.claude.outcome import own_id
from amux.model.facts import Facts

_NO_LIST = Question(limit=0)


class ClaudeKin:
    """What to read for one session; a project is looked at when something in it is named."""

    def __init__(self, sources: Sequence[SourceRef], session_id: str) -> None:
        self._session_id = session_id
        self._projects: dict[str, list[SourceRef]] = {}
        self._holding: dict[str, set[str]] = {}  # projects that hold a session, by its name
        self._open: dict[str, FileChoice] = {}
        for source in sources:
            self._projects.setdefault(source.group, []).append(source)
            for name in _names_in_place(source):
                self._holding.setdefault(name, set()).add(source.group)

    @property
    def is_known(self) -> bool:
        """Whether some file's name shows the session."""
        return self._session_id in self._holding

    def more(self, read: Sequence[tuple[SourceRef, Facts]]) -> Chosen:
        """What is named by what was read, and what its projects relate to it."""
        named = {self._session_id, *chain.from_iterable(names_of(facts) for _, facts in read)}
        chosen: dict[SourceRef, Sequence[str]] = {}
        for group in set(chain.from_iterable(self._holding.get(name, ()) for name in named)):
            if group not in self._open:
                self._open[group] = _look_at(self._projects[group])
                chosen.update(self._open[group].first())
            own = [(source, facts) for source, facts in read if source.group == group]
            chosen.update(self._open[group].named(named))
            chosen.update(self._open[group].more(own))
        return chosen


def _names_in_place(source: SourceRef) -> Iterable[str]:
    return filter(None, {source.session_id, source.parent, source.name.partition(".")[0]})


def _look_at(sources: Sequence[SourceRef]) -> FileChoice:
    sketches = [_by_place(source) for source in sources if _says_whose(source)]
    beginnings = [begin_of(source) for source in sources if not _says_whose(source)]
    sketches += (one.sketch for one in beginnings)
    return FileChoice(sketches, _NO_LIST, ClaudeKinship(beginnings))


def _says_whose(source: SourceRef) -> bool:
    return source.role == "names" or source.parent is not None


def _by_place(source: SourceRef) -> Sketch:
    whose = () if source.parent is None else (source.parent,)
    is_agent = source.role == "subagent"
    return Sketch(
        source=source, session_id=own_id(source), listed=is_agent, nested=is_agent, names=whose
    )
