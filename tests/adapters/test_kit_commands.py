"""The prompt that names a session which may consist of slash commands."""

from __future__ import annotations

import pytest

from amux.adapters._kit.commands import TitlePrompt, is_command

ANSWER = None


@pytest.mark.parametrize(
    ("events", "title"),
    [
        (["/login"], ""),
        (["/login", ANSWER, "/review 12"], "/review 12"),
        (["/new", ANSWER, "/review 12", "/plan it", ANSWER], "/plan it"),
        (["/status now", "/usage"], "/status now"),
        (["/Exit"], ""),
        (["/newsletter for May"], "/newsletter for May"),
        (["/clear", "fix the door", ANSWER], "fix the door"),
        (["/home/me/app crashes", ANSWER], "/home/me/app crashes"),
        ([ANSWER, " ", "/help me", ANSWER], ""),
        ([], ""),
    ],
)
def test_a_command_of_the_interface_never_names_a_session(
    events: list[str | None], title: str
) -> None:
    chosen = TitlePrompt()
    for event in events:
        if event is None:
            chosen.answer()
        else:
            chosen.prompt(event)
    assert chosen.text == title


@pytest.mark.parametrize("text", ["/etc/hosts", "//", "/", "/ foo", "? help", "a /b"])
def test_a_path_is_no_command(text: str) -> None:
    assert not is_command(text)
