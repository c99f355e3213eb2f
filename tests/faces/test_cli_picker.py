"""`amux resume` without an id: a picker on a terminal, a list elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import write_claude
from fake_agents import CLAUDE, FakeAgents
from pseudo_terminal import COLOR, TypingUser

from amux.faces.cli.picker import Picker, PickerRow

UP, DOWN, ESCAPE, ENTER, DELETE = "\x1b[A", "\x1b[B", "\x1b", "\r", "\x7f"
HOSTILE = "\x1b]0;owned\x07\x1b[2Jwipe \u202etxt"


@pytest.fixture
def agents(tmp_path: Path) -> FakeAgents:
    agents = FakeAgents(tmp_path)
    agents.answering("claude", CLAUDE)
    (tmp_path / "work").mkdir()
    for number, prompt in enumerate(["fix the cart", "write a poem", HOSTILE], start=1):
        write_claude(agents.home, number, prompt=prompt, cwd=str(tmp_path / "work"))
    return agents


def user_of(agents: FakeAgents, *words: str) -> TypingUser:
    return TypingUser(agents.command(*words), agents.env)


def session_id(agents: FakeAgents, title: str) -> str:
    found = [
        each for each in agents.client().sessions.list("claude") if title in (each.title or "")
    ]
    return found[0].session_id


def test_typing_filters_and_enter_resumes_in_the_directory_of_the_session(
    agents: FakeAgents, tmp_path: Path
) -> None:
    user = user_of(agents, "resume")
    user.expect("Esc leaves")
    user.type("poem")
    user.expect("> poem")
    user.expect("Esc leaves")
    user.type(ENTER)
    assert user.end() == 0
    given = agents.given("claude")
    assert given["argv"] == ["--resume", session_id(agents, "poem")]
    assert given["cwd"] == str(tmp_path / "work")
    (line,) = agents.runs()
    assert line["sessionId"] == session_id(agents, "poem")


def test_arrow_keys_move_and_the_preview_follows(agents: FakeAgents) -> None:
    ids = [each.unified_id for each in agents.client().sessions.list("claude", sort="updated")]
    user = user_of(agents, "sessions", "fork")
    user.expect(ids[0])
    user.type(DOWN)
    user.expect(ids[1])
    user.type(DOWN)
    user.expect(ids[2])
    user.type(UP)
    user.expect(ids[1])
    user.expect("Esc leaves")
    user.type(ENTER)
    assert user.end() == 0
    assert agents.given("claude")["argv"] == [
        "--resume", ids[1].partition(":")[2], "--fork-session",
    ]  # fmt: skip


@pytest.mark.parametrize("key", [ESCAPE, "\x03", "\x04"])
def test_leaving_starts_nothing_and_restores_the_terminal(agents: FakeAgents, key: str) -> None:
    user = user_of(agents, "resume", "claude")
    user.expect("Esc leaves")
    user.type(key)
    assert user.end() == 13
    assert "nothing was chosen" in user.seen
    assert agents.runs() == []


def test_a_filter_without_a_match_picks_nothing(agents: FakeAgents) -> None:
    user = user_of(agents, "resume")
    user.expect("Esc leaves")
    user.type("zzz")
    user.expect("no session matches")
    user.type(ENTER + DELETE * 3 + "cart")
    user.expect("> cart")
    user.expect("Esc leaves")
    user.type(ENTER)
    assert user.end() == 0
    assert agents.given("claude")["argv"][1] == session_id(agents, "cart")


def test_hostile_titles_control_no_terminal(agents: FakeAgents) -> None:
    user = user_of(agents, "resume")
    user.expect("Esc leaves")
    user.type(ESCAPE)
    user.end()
    shown = COLOR.sub("", user.seen)
    assert "wipe" in shown
    assert "\x1b]0" not in shown
    assert "\x1b[2J" not in shown
    assert "\x07" not in shown
    assert "\u202e" not in shown


def test_the_list_follows_the_size_of_the_window(agents: FakeAgents) -> None:
    user = user_of(agents, "resume")
    user.expect("-" * 79)
    user.expect("Esc leaves")
    user.resize(columns=40, rows=12)
    user.expect("\x1b[H")
    user.expect("up/down move")
    user.type(ESCAPE)
    assert user.end() == 13
    redrawn = COLOR.sub("", user.seen).partition("\x1b[H")[2]
    assert max(map(len, redrawn.partition("up/down")[0].splitlines())) <= 39 + len("\r\x1b[J")
    assert "-" * 40 not in redrawn


def test_without_a_terminal_the_sessions_are_listed(agents: FakeAgents) -> None:
    done = agents.amux("resume")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 3
    assert "there is no terminal to choose on" in done.stderr
    assert agents.runs() == []


def test_a_terminal_that_cannot_move_its_cursor_gets_a_list_and_no_live_line(
    agents: FakeAgents,
) -> None:
    agents.env["TERM"] = "dumb"
    listed = user_of(agents, "resume")
    assert listed.end() == 0
    assert "name one of these sessions" in listed.seen
    agents.add("claude", "time.sleep(0.8)\nsay({'type': 'result', 'result': 'done'})\n")
    shown = user_of(agents, "run", "claude", "go")
    assert shown.end() == 0
    assert "\x1b" not in shown.seen + listed.seen


def test_without_sessions_there_is_nothing_to_choose(tmp_path: Path) -> None:
    done = FakeAgents(tmp_path).amux("resume")
    assert (done.returncode, done.stdout) == (0, "")
    assert "there is no session to resume" in done.stderr


def test_a_missing_directory_is_asked_for_on_a_terminal(agents: FakeAgents, tmp_path: Path) -> None:
    write_claude(agents.home, 9, prompt="gone away", cwd=str(tmp_path / "gone"))
    user = user_of(agents, "resume", session_id(agents, "gone"))
    user.expect("directory to work in")
    user.type(f"{tmp_path}\n")
    assert user.end() == 0
    assert agents.given("claude")["cwd"] == str(tmp_path)


def test_a_live_line_shows_what_the_agent_does(agents: FakeAgents) -> None:
    body = (
        "for record in json.loads(RECORDS)[:3]: say(record)\n"
        "while not os.path.exists(os.path.join(FOLDER, 'seen')): time.sleep(0.05)\n"
        "for record in json.loads(RECORDS)[3:]: say(record)\n"
    )
    import json

    agents.add("claude", f"RECORDS = {json.dumps(CLAUDE)!r}\n{body}")
    user = user_of(agents, "run", "claude", "go")
    user.expect("133 tokens  Bash")
    (agents.folder / "seen").write_text("")
    assert user.end() == 0
    lines = user.seen.replace("\r\x1b[K", "\n").splitlines()
    assert "Two files." in lines
    assert "session claude:s-1" in lines[-1]


def test_a_first_prompt_may_begin_an_interactive_session_with_tags(agents: FakeAgents) -> None:
    user = user_of(agents, "run", "claude", "-i", "hello", "--tag", "x")
    assert user.end() == 0
    given = agents.given("claude")["argv"]
    assert given[0] == "--session-id"
    assert given[2:] == ["hello"]
    (line,) = agents.runs()
    assert (line["sessionId"], line["tags"]) == (given[1], ["x"])


def test_a_small_window_shows_as_many_rows_as_fit() -> None:
    rows = [PickerRow(f"{n} 日本語" * 20, [f"preview {n}"]) for n in range(50)]
    picker = Picker(rows, columns=20, lines=10)
    for _ in range(30):
        picker.press("down")
    lines = [COLOR.sub("", line) for line in picker.draw()]
    assert len(lines) <= 10
    assert picker.chosen == 30
    assert any(line.startswith("30 ") for line in lines)
    picker.press("page-up")
    picker.press("up")
    assert picker.chosen == 30 - 4
    picker.resize(columns=20, lines=8)
    assert any("26 " in line for line in picker.draw())
