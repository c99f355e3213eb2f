"""Translates a term of a query into FTS5 expressions, which match exactly or give candidates.

    word      anywhere in the folded text
    prefix    at the beginning of a word
    phrase    consecutive whole words, with anything but words between them
    literal   anywhere, with punctuation: the index has words only, so it gives candidates
    regex     the index cannot help

Every token in an expression is quoted and contains no quote: no expression is malformed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

from amux.index.text.vocabulary import WordList
from amux.model.words import JOINT, OVERLAP, Segment, ideograph_tokens, segments

TermKind = Literal["word", "prefix", "phrase", "literal", "regex"]

WIDEST: Final = 20_000
"""The most tokens a word may stand for; one letter stands for nearly all of them."""

_MAX_ALTERNATIVES: Final = 500  # in one of several conditions, which is dropped beyond that
_MAX_PHRASE: Final = 200
_CharacterRun = list[Segment]


class Plan(NamedTuple):
    """Texts that match any of the clauses; `clauses` None means that the index cannot help.

    If it is not `exact`, the texts are candidates: all texts with the term and maybe others.
    """

    clauses: tuple[str, ...] | None
    exact: bool


_ALL: Final = Plan(None, exact=False)


def plan_term(kind: TermKind, folded: str, words: WordList) -> Plan:
    """Return the plan for a folded term. `words` are the tokens of the index."""
    runs = _runs(folded)
    if kind == "regex" or not runs:
        return _ALL
    planner = _Planner(words)
    covered = len(runs) == 1 and sum(len(segment.text) for segment in runs[0]) == len(folded)
    match kind:
        case "word" if covered:
            return planner.word(runs[0])
        case "prefix" if covered and _is_plain(runs[0]):
            return Plan((_consecutive([folded], prefix=True),), exact=True)
        case "phrase":
            return planner.phrase(runs)
        case _:
            begins_word = kind == "prefix" or runs[0][0].start > 0
            goes_on = runs[-1][-1].end == len(folded)
            return planner.candidates(runs, begins_word=begins_word, goes_on=goes_on)


def _runs(folded: str) -> list[_CharacterRun]:
    runs: list[_CharacterRun] = []
    for segment in segments(folded):
        if runs and runs[-1][-1].end == segment.start:
            runs[-1].append(segment)
        else:
            runs.append([segment])
    return runs


def _is_plain(run: _CharacterRun) -> bool:
    """Return whether a run is one token wherever it is a whole word."""
    return len(run) == 1 and not run[0].is_ideographic and len(run[0].text) <= OVERLAP


def _consecutive(tokens: Sequence[str], *, prefix: bool = False) -> str:
    """Return an expression for consecutive tokens; with `prefix` the last one may go on."""
    used = tokens[:_MAX_PHRASE]
    goes_on = prefix and len(used) == len(tokens)
    return f'"{" ".join(used)}"{" *" if goes_on else ""}'


class _Planner:
    def __init__(self, words: WordList) -> None:
        self._words = words

    def word(self, run: _CharacterRun) -> Plan:
        """Plan a run of word characters at any position."""
        if len(run) > 1:
            return self._mixed(run)
        text = run[0].text
        if run[0].is_ideographic:
            return self._ideographs(text)
        part = text[:OVERLAP]
        tokens = self._words.containing(part, limit=WIDEST)
        if tokens is None:
            return _ALL
        if part in tokens:  # the word itself first: most texts contain it
            tokens.remove(part)
            tokens.insert(0, part)
        return Plan(tuple([f'"{token}"' for token in tokens]), exact=len(text) <= OVERLAP)

    def phrase(self, runs: Sequence[_CharacterRun]) -> Plan:
        """Plan consecutive whole words."""
        if not all(_is_plain(run) for run in runs):
            return self._all_of(self.word(run) for run in runs)
        tokens = [run[0].text for run in runs]
        return Plan((_consecutive(tokens),), exact=len(tokens) <= _MAX_PHRASE)

    def candidates(
        self, runs: Sequence[_CharacterRun], *, begins_word: bool, goes_on: bool
    ) -> Plan:
        """Plan runs with something between them; the outer ones may be parts of words."""
        plans: list[Plan] = []
        row: list[str] = []
        for index, run in enumerate(runs):
            if _is_plain(run) and (begins_word or index > 0):
                row.append(run[0].text)
                continue
            if row:
                plans.append(Plan((_consecutive(row),), exact=False))
                row = []
            plans.append(self.word(run))
        if row:
            plans.append(Plan((_consecutive(row, prefix=goes_on),), exact=False))
        return self._all_of(plans)

    def _all_of(self, plans: Iterable[Plan]) -> Plan:
        """Plan texts that meet every condition; one that is too wide to help is left out."""
        parts: list[str] = []
        for clauses, _ in plans:
            if clauses is not None and not clauses:
                return Plan((), exact=True)
            if clauses is not None and len(clauses) <= _MAX_ALTERNATIVES:
                parts.append(clauses[0] if len(clauses) == 1 else f"({' OR '.join(clauses)})")
        return Plan((" AND ".join(parts),), exact=False) if parts else _ALL

    def _ideographs(self, text: str) -> Plan:
        if len(text) == 1:
            return Plan((_consecutive([text], prefix=True),), exact=True)
        pairs = ideograph_tokens(text)[:-1]
        return Plan((_consecutive(pairs),), exact=len(pairs) <= _MAX_PHRASE)

    def _mixed(self, run: _CharacterRun) -> Plan:
        """Plan ideographs and other characters without anything between them."""
        if any(len(segment.text) > OVERLAP for segment in run):
            return self._all_of(self.word([segment]) for segment in run)
        first, *rest = run
        tail = [token for segment in rest for token in _tokens_behind(segment, run)]
        prefix = not rest[-1].is_ideographic or len(rest[-1].text) == 1
        if first.is_ideographic:
            heads = [ideograph_tokens(first.text)]
        else:  # a token that ends with the beginning of the run
            ending = first.text + (JOINT if first.goes_on else "")
            found = self._words.ending(ending, limit=_MAX_ALTERNATIVES)
            if found is None:
                return Plan((_consecutive(tail, prefix=prefix),), exact=False)
            heads = [[head] for head in found]
        rows = [[*head, *tail] for head in heads]
        is_unclear = any(_is_unmarked(segment, run) for segment in run)
        whole = all(len(row) <= _MAX_PHRASE for row in rows)
        clauses = tuple(_consecutive(row, prefix=prefix) for row in rows)
        return Plan(clauses, exact=whole and not is_unclear)


def _tokens_behind(segment: Segment, run: _CharacterRun) -> list[str]:
    """Return the tokens of a segment after the first of its run; the last may be continued."""
    if segment.is_ideographic:
        tokens = ideograph_tokens(segment.text)
        return tokens[:-1] if segment is run[-1] and len(tokens) > 1 else tokens
    begin, end = JOINT if segment.joined else "", JOINT if segment.goes_on else ""
    return [begin + segment.text + end]


def _is_unmarked(segment: Segment, run: _CharacterRun) -> bool:
    """Return whether a token does not show that its run continues, as before a voicing mark."""
    if segment.is_ideographic:
        return False
    return (segment is not run[0] and not segment.joined) or (
        segment is not run[-1] and not segment.goes_on
    )
