"""Hermes: what the person typed is separated from what Hermes writes around it."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawn import drawn
from hermes_stores import Store
from hypothesis import given
from hypothesis import strategies as st

from amux.adapters._kit.injected import InjectedTexts
from amux.adapters.hermes import ADAPTER

CRON = (
    "[IMPORTANT: You are running as a scheduled cron job. SILENT: respond with exactly "
    '"[SILENT]" (nothing else).]\n\n'
)
SWITCHED = "[Note: model was just switched from a to b via X. Adjust accordingly.]\n\n"
EXPIRED = "[System note: The user's previous session expired due to inactivity. See [1].]\n\n"
INVOKED = '[SYSTEM: The user has invoked the "My Skill" skill, indicating they want it.]\n\n'
ARGUMENTS = "\n\nThe user has provided the following instruction alongside the skill invocation: "
LOADED = '[IMPORTANT: The "helper" skill is auto-loaded. Follow its instructions.]\n\n'
DIRECTORY = (
    "[Skill directory: /s]\nResolve any relative paths in this skill (e.g. `scripts/foo.js`) "
    "against that directory, then run them with the terminal tool using the absolute path."
)


def prompts(tmp_path: Path, content: str) -> list[str]:
    """Write one message, and return the prompts in it."""
    store = Store(tmp_path)
    store.session("s")
    store.say("s", "user", content)
    store.say("s", "assistant", "yes")
    found = store.said("s", "user")
    assert store.one("s").first_prompt == (" ".join(found[0].split())[:100] if found else None)
    return found


@pytest.mark.parametrize(
    ("content", "typed"),
    [
        (CRON + "check it", ["check it"]),
        ("\n " + CRON + "check it\n", ["check it"]),
        (CRON, []),
        (CRON + "[Script ran successfully but produced no output.]\n\ncheck it", ["check it"]),
        (CRON + "## Script Error\nNo.\n\n```\nno end", ["## Script Error\nNo.\n\n```\nno end"]),
        (SWITCHED + EXPIRED + "[mine] go", ["[mine] go"]),
        (EXPIRED.rstrip()[:-1] + "it never ends", []),
        (EXPIRED * 30 + "too many", []),
        (INVOKED + "body", ["/my-skill"]),
        (INVOKED + "body" + ARGUMENTS + "do it", ["/my-skill do it"]),
        (SWITCHED + INVOKED + "body" + ARGUMENTS + "do it", ["/my-skill do it"]),
        (INVOKED + "body" + ARGUMENTS + CRON, ["/my-skill"]),
        (INVOKED.replace("My Skill", "\n"), []),
        (LOADED + "body\n\n" + DIRECTORY + "\n\nmy\n\nquestion", ["my\n\nquestion"]),
        (LOADED + "body\n\nmy question", ["my question"]),
        ("[IMPORTANT: it is mine]", ["[IMPORTANT: it is mine]"]),
        ("[1, 2, 3]", ["[1, 2, 3]"]),
    ],
)
def test_the_prompt_is_what_the_person_typed(
    content: str, typed: list[str], tmp_path: Path
) -> None:
    assert prompts(tmp_path, content) == typed


def test_nothing_of_a_split_text_is_lost(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("s")
    store.say("s", "user", SWITCHED + "go")
    store.say("s", "user", INVOKED + "body" + ARGUMENTS + "do it")
    shown = [(m.id, m.content, m.synthetic) for m in store.read().messages]
    assert shown == [
        ("1:injected", SWITCHED.rstrip(), True),
        ("1", "go", False),
        ("2:injected", INVOKED + "body" + ARGUMENTS + "do it", True),
        ("2", "/my-skill do it", False),
    ]


def test_the_arguments_of_a_long_skill_are_found_at_its_end(tmp_path: Path) -> None:
    body = "a line of the skill\n" * 5_000
    assert prompts(tmp_path, INVOKED + body + ARGUMENTS + "do it") == ["/my-skill do it"]


def test_the_first_answered_command_is_the_title(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("s")
    store.say("s", "user", "/status")
    store.say("s", "user", "/review the parser")
    assert store.one("s").first_prompt == "/status"
    store.say("s", "assistant", "it is fine")
    assert store.one("s").first_prompt == "/review the parser"


def test_any_other_prompt_is_a_better_title_than_a_command(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("s")
    store.say("s", "user", "/review the parser")
    store.say("s", "assistant", "it is fine")
    store.say("s", "user", "then fix the lexer")
    assert store.one("s").first_prompt == "then fix the lexer"


def test_a_path_is_not_a_command(tmp_path: Path) -> None:
    assert prompts(tmp_path, "/home/me/notes.txt is empty") == ["/home/me/notes.txt is empty"]
    store = Store(tmp_path / "unanswered")
    store.session("s")
    store.say("s", "user", "/home/me/notes.txt is empty")
    assert store.one("s").first_prompt == "/home/me/notes.txt is empty"


@drawn(200)
@given(
    notes=st.lists(st.sampled_from([CRON, SWITCHED, EXPIRED, LOADED, INVOKED, " "]), max_size=4),
    typed=st.text(max_size=20),
)
def test_no_prompt_begins_with_an_injected_text(
    notes: list[str], typed: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = Store(tmp_path_factory.mktemp("store"))
    store.session("s")
    store.say("s", "user", "".join(notes) + typed.replace("\0", ""))
    injected = InjectedTexts(ADAPTER.info.injected_texts)
    assert not any(map(injected.begins, store.said("s", "user")))
