"""Tests sessions that omp imported from Claude Code or Codex: their calls and their authors."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pi_logs import Json, entry, header, reply, usage, user, write

from amux import Session
from amux.client import Client, create_client

FOLDER = Path(".omp/agent/sessions/-src-app")
ORIGINAL = Path(".claude/projects/-src-app/c1.jsonl")
ROLLOUT = Path(".codex/sessions/2026/11/15/rollout-c1.jsonl")
ZEROS = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0}}


def imported(source: str, path: str, second: int = 6) -> Json:
    data = {"source": source, "sourceId": "c1", "sourcePath": path, "sourceCwd": "/src/app"}
    return entry("00ab0001", None, second, "custom", customType="foreign_session_import", data=data)


def claude(number: int, second: int, **more: Any) -> Json:
    more = {"responseId": "msg_1", "usage": usage(100, 0), **more}
    return reply(f"claude-uuid{number}-message-{number}", None, second, **more)


def log(home: Path, *lines: Json, session_id: str = "s1") -> Path:
    name = f"2026-11-15T20-00-00-000Z_{session_id}.jsonl"
    head = [{"type": "title", "v": 1, "title": ""}, header(session_id)]
    chained = [{**line, "parentId": last["id"]} for last, line in pairwise(lines)]
    return write(home / FOLDER / name, [*head, lines[0], *chained])


TALK = (
    user("claude-uuid1-message-1", None, 1, "Hi"),
    claude(2, 2, usage={**usage(100, 0), "output": 4}),
    claude(3, 3),
    claude(4, 4),
    imported("claude", f"/home/dev/{ORIGINAL}"),
    user("00ab0002", None, 7, "More", attribution="user"),
    reply("00ab0003", None, 8),
)


def get(home: Path, session_id: str = "s1", **env: str) -> Session:
    return create_client(home=home, env=env).sessions.get("omp", session_id)


def inputs(session: Session) -> list[int]:
    return [call.tokens.input for call in session.calls]


def test_without_its_original_an_imported_call_counts_once(tmp_path: Path) -> None:
    log(tmp_path, *TALK)
    session = get(tmp_path)
    first, _ = session.calls
    assert inputs(session) == [100, 108]
    assert (first.key, first.tokens.output, first.repeats) == ("msg_1", 10, 2)
    assert session.cost is not None
    assert session.cost.incomplete == ("unpriced-model",)
    assert session.raw["importedFrom"] == {"agent": "claude", "sessionId": "c1"}


def test_while_its_original_exists_an_imported_call_belongs_there(tmp_path: Path) -> None:
    log(tmp_path, *TALK)
    write(tmp_path / ORIGINAL, [])
    session = get(tmp_path)
    assert inputs(session) == [108]
    assert session.cost is not None
    assert session.cost.incomplete == ()
    assert session.models == ("fake-large",)


def test_the_index_notices_that_an_original_is_gone(tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    home = tmp_path / "home"
    log(home, *TALK)
    original = write(home / ORIGINAL, [])
    assert inputs(get(home, AMUX_CACHE_DIR=cache)) == [108]
    create_client(home=home, env={"AMUX_CACHE_DIR": cache}).index.update()
    original.unlink()

    def total(client: Client) -> int:
        return client.sessions.total_cost(agent="omp").input_tokens

    assert total(create_client(home=home, env={"AMUX_CACHE_DIR": cache})) == 208
    assert total(create_client(home=home)) == 208


def test_two_imports_of_one_session_count_its_calls_once(tmp_path: Path) -> None:
    log(tmp_path, *TALK)
    own = (user("00cd0002", None, 17, "Else"), reply("00cd0003", None, 18))
    log(tmp_path, *TALK[:4], imported("claude", f"/home/dev/{ORIGINAL}"), *own, session_id="s2")
    total = create_client(home=tmp_path).sessions.total_cost(agent="omp")
    assert total.input_tokens == 100 + 108 + 118


@pytest.mark.parametrize(
    "path",
    [
        "/data/claude/projects/-src-app/c1.jsonl",  # moved by an environment variable
        "/home/dev/.claude/../../etc/passwd",
        "/home/dev/.claude",
        "C:\\Users\\dev\\.claude\\..\\x",
    ],
)
def test_if_the_store_of_the_original_is_unknown_its_calls_are_left_to_it(
    path: str, tmp_path: Path
) -> None:
    log(tmp_path, *TALK[:4], imported("claude", path), *TALK[5:])
    session = get(tmp_path)
    assert inputs(session) == [108]
    assert session.cost is not None
    assert session.cost.incomplete == ("calls-in-another-session",)


def test_a_path_of_another_system_is_found_below_this_home(tmp_path: Path) -> None:
    path = "C:\\Users\\dev\\.claude\\projects\\-src-app\\c1.jsonl"
    log(tmp_path, *TALK[:4], imported("claude", path), *TALK[5:])
    assert inputs(get(tmp_path)) == [100, 108]
    write(tmp_path / ORIGINAL, [])
    assert inputs(get(tmp_path)) == [108]


@pytest.mark.parametrize(
    ("place", "reasons"),
    [
        (None, ("usage-not-recorded",)),
        (ROLLOUT, ()),
        (Path(".codex/archived_sessions") / ROLLOUT.name, ()),
        (Path(".codex/archived_sessions") / f"{ROLLOUT.name}.zst", ()),
    ],
)
def test_calls_of_codex_are_missing_only_without_their_original(
    place: Path | None, reasons: tuple[str, ...], tmp_path: Path
) -> None:
    lines = (
        user("codex-1", None, 1, "Hi"),
        reply("codex-2", None, 2, usage=ZEROS, model="gpt-5-codex"),
        entry("codex-3", None, 3, "compaction", summary="so far"),
        imported("codex", f"/home/dev/{ROLLOUT}"),
    )
    log(tmp_path, *lines, *TALK[5:])
    if place is not None:
        write(tmp_path / place, [])
    session = get(tmp_path)
    assert session.cost is not None
    assert (session.cost.input_tokens, session.cost.incomplete) == (108, reasons)
    assert set(session.models) == {"gpt-5-codex", "fake-large"}


def test_a_prompt_without_an_answer_before_the_import_is_missing_elsewhere(tmp_path: Path) -> None:
    log(tmp_path, TALK[0], *TALK[4:])
    session = get(tmp_path)
    assert session.cost is not None
    assert session.cost.incomplete == ()


INJECTED = [
    "<system-reminder>x</system-reminder>",
    "<command-name>/login</command-name>\n<command-message>login</command-message>",
    "Caveat: The messages below were generated by the user while running local commands.",
    "<environment_context>\n  <cwd>/src/app</cwd>\n</environment_context>",
    "# AGENTS.md instructions for /src/app",
]


@pytest.mark.parametrize("said", INJECTED)
def test_injected_texts_of_the_other_agent_stay_injected(said: str, tmp_path: Path) -> None:
    log(tmp_path, user("claude-uuid0-message-0", None, 0, said), *TALK)
    session = get(tmp_path)
    assert (session.title, session.turn_count) == ("Hi", 2)
    assert [m.content for m in session.messages if m.synthetic] == [said]


def test_what_a_person_types_into_omp_is_typed_whatever_it_begins_with(tmp_path: Path) -> None:
    log(tmp_path, user("00ab0001", None, 1, INJECTED[0]), reply("00ab0002", None, 2))
    assert get(tmp_path).turn_count == 1


def test_an_imported_command_for_the_model_is_a_prompt(tmp_path: Path) -> None:
    echo = "<command-message>review</command-message>\n<command-name>/review</command-name>\n"
    echo += "<command-args>the cart</command-args>"
    log(tmp_path, user("claude-uuid1-message-1", None, 1, echo), *TALK[1:5])
    session = get(tmp_path)
    assert (session.title, session.turn_count) == ("/review the cart", 1)
    assert [(m.content, m.synthetic) for m in session.messages[:2]] == [
        (echo, True),
        ("/review the cart", False),
    ]


def test_a_text_of_an_extension_is_no_prompt(tmp_path: Path) -> None:
    skill = {"customType": "skill-prompt", "attribution": "user", "content": "Do it."}
    lines = (
        entry("00ab0001", None, 1, "custom_message", customType="note", content="x", display=True),
        entry("00ab0002", None, 2, "custom_message", **skill, details={"args": "no name"}),
        entry("00ab0003", None, 3, "custom_message", **skill, details={"name": "a", "prompt": "p"}),
        reply("00ab0004", None, 4),
    )
    log(tmp_path, *lines)
    session = get(tmp_path)
    assert [m.content for m in session.messages if m.synthetic] == ["x", "Do it.", "Do it."]
    assert (session.title, session.turn_count) == ("p", 1)
