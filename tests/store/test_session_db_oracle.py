"""Calls of the real `hermes_state.SessionDB`, recorded with their answers, are replayed on ours.

Version 0.13.0 has schema 11, that of the specification; 0.19.0 has schema 22. Every recorded call
is replayed: `NOT_COMPARED` names the answers that must differ, with the reason, and `FOREIGN` in
`compared_answers` names the columns that our schema does not have.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compared_answers import Comparison
from session_databases import DAY_S, OpenDB, Ticks

from amux import AmuxError, SessionDB

Call = dict[str, Any]

ORACLES = Path(__file__).parent.parent / "captures" / "hermes-oracle"
VERSIONS = ("0.13.0", "0.19.0")

NOT_COMPARED = {
    ("*", "resolve_session_id", "s"): "an ambiguous prefix is an error that names the candidates",
    ("0.13.0", "resolve_resume_session_id", "root"): "0.19.0 and we resume at the tip",
    ("0.13.0", "search_messages", "TODO: items"): "0.19.0 and we strip colons",
    ("0.13.0", "get_session", "subc"): "0.19.0 and we delete the delegates of a deleted session",
    ("0.13.0", "session_count after delete", ""): "a consequence of that",
    ("0.13.0", "list_sessions_rich after delete", ""): "a consequence of that",
}
"""Recorded answers that ours need not equal, by version, call and first argument."""

LEFT_OUT = {
    ("0.19.0", "get_messages_as_conversation"): "timestamp",  # no model API takes it
}
"""Keys that one version adds to the answers of a call."""

COLONS = {"TODO: items": "TODO  items", "a:b": "a b"}
"""Queries that 0.13.0 does not strip of colons, with the answer of 0.19.0."""

CODES = {"Title too long": "VALIDATION_ERROR", "already in use": "TITLE_IN_USE"}
"""The error codes that stand for recorded errors."""


def recorded(version: str) -> list[Call]:
    text = (ORACLES / version / "oracle.json").read_text(encoding="utf-8")
    log: list[Call] = json.loads(text)["log"]
    return log


def without(answer: Any, key: str | None) -> Any:
    if key is None:
        return answer
    return [{name: each[name] for name in each if name != key} for each in answer]


def named(call: Call, *, has_deleted: bool) -> tuple[str, str]:
    name = call["call"]
    if has_deleted and name in {"session_count", "list_sessions_rich"}:
        name += " after delete"
    return name, str(call["args"][0]) if call["args"] else ""


def answer(db: SessionDB, call: Call) -> tuple[Any, str | None]:
    """Our answer to a recorded call, and the code of the error if it is one."""
    try:
        result = getattr(db, call["call"])(*call["args"], **call["kwargs"])
    except AmuxError as error:
        return None, error.code
    return json.loads(json.dumps(result)), None


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_calls_get_the_recorded_answers(version: str, open_db: OpenDB) -> None:
    ticks = Ticks()
    ticks()  # the recorded class looks at the clock when it opens the file
    db = open_db(ticks=ticks)
    comparison = Comparison(version)
    found: list[str] = []
    has_deleted = False
    for number, call in enumerate(recorded(version)):
        if "table" in call:
            continue  # compared below
        if call["call"] == "prune_sessions" and ticks.seconds < 1.76e9:
            ticks.seconds += 200 * DAY_S  # as the recorder did
        name, argument = named(call, has_deleted=has_deleted)
        has_deleted |= name == "delete_session"
        result, code = answer(db, call)
        if {(version, name, argument), ("*", name, argument)} & NOT_COMPARED.keys():
            continue
        expected = next((CODES[key] for key in CODES if key in str(call["error"])), None)
        theirs = without(call["result"], LEFT_OUT.get((version, name)))
        differences = [*comparison.differences(theirs, result)]
        if code != expected or differences:
            found.append(f"{number} {name}({argument}): {code} {differences[:3]}")
    assert found == []


@pytest.mark.parametrize("version", VERSIONS)
def test_every_exception_is_a_recorded_call(version: str) -> None:
    has_deleted = False
    names: set[tuple[str, str]] = set()
    for call in recorded(version):
        if "table" not in call:
            names.add(named(call, has_deleted=has_deleted))
            has_deleted |= call["call"] == "delete_session"
    listed = {(name, argument) for each, name, argument in NOT_COMPARED if each in {version, "*"}}
    assert listed <= names


@pytest.mark.parametrize("version", VERSIONS)
def test_queries_are_cleaned_as_recorded(version: str) -> None:
    (call,) = (each for each in recorded(version) if each["call"] == "_sanitize_fts5_query")
    expected = {**call["table"], **COLONS} if version == "0.13.0" else call["table"]
    sanitize = getattr(SessionDB, call["call"])
    assert {query: sanitize(query) for query in expected} == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_titles_are_cleaned_as_recorded(version: str) -> None:
    (call,) = (each for each in recorded(version) if each["call"] == "sanitize_title")
    for title, expected in call["table"]:
        try:
            found = SessionDB.sanitize_title(title)
        except AmuxError as error:
            found = error.code
        code = next((CODES[key] for key in CODES if key in str(expected)), expected)
        assert found == code, title
