"""`amux follow` in a separate process, while a session grows."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from builders import ClaudeSession, CodexSession, uuid_of
from cli_process import Cli
from pseudo_terminal import COLOR

ID = uuid_of(1)


@pytest.fixture
def session(home: Path) -> ClaudeSession:
    session = ClaudeSession(home, ID)
    session.prompt("first").reply("one").write()
    return session


@pytest.fixture
def cli(home: Path) -> Cli:
    return Cli(home)


class Follower:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def out(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def until(self, text: str) -> str:
        """What it prints up to a line with the text."""
        lines = [self.out()]
        while text not in lines[-1]:
            assert lines[-1], "it ended without having said that"
            lines.append(self.out())
        return "".join(lines)

    def begun(self) -> str:
        """Wait until it says that it follows; everything before that is old."""
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=30)


@contextmanager
def following(cli: Cli, *words: str) -> Generator[Follower]:
    with subprocess.Popen(
        cli.command("follow", *words),
        env=cli.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        try:
            yield Follower(process)
        finally:
            process.kill()


def test_messages_are_printed_as_show_prints_them(cli: Cli, session: ClaudeSession) -> None:
    with following(cli, ID[:8]) as follower:
        assert follower.begun() == f"note: following claude:{ID}; press Ctrl-C to stop\n"
        session.prompt("second").reply("two").write()
        printed = follower.until("two")
        assert follower.stop() == 130
    assert "first" not in printed
    assert printed in cli("show", ID).out
    assert printed.startswith("### User\n")


def test_on_a_terminal_messages_are_laid_out_for_people(cli: Cli, session: ClaudeSession) -> None:
    agent = ClaudeSession(cli.home, ID)
    agent.prompt("the task", isSidechain=True, agentId="aa", uuid="aa-1")
    agent.write(session.path.with_suffix("") / "subagents" / "agent-aa.jsonl")
    with following(cli, ID, "--from-start", "--color", "always") as follower:
        printed = COLOR.sub("", follower.until("the task"))
    assert re.search(r"^user  \S+  #1\n  first\n\nclaude  .*#2.*\n  one\n", printed, re.MULTILINE)
    assert re.search(
        r"^── sub-agent aa ──+\n(.*\n)+user  .*#1\n  the task\n", printed, re.MULTILINE
    )
    assert "###" not in printed


def test_from_the_start_and_without_an_id(cli: Cli, session: ClaudeSession) -> None:
    older = CodexSession(cli.home, uuid_of(2)).prompt("older").write()
    os.utime(older, (1, 1))
    with following(cli, "--from-start") as follower:
        assert "first" in follower.until("one")
    with following(cli, "--from-start", "--agent", "codex") as follower:
        follower.until("older")


def test_json_is_one_change_per_line(cli: Cli, session: ClaudeSession) -> None:
    with following(cli, ID, "--json", "--from-start") as follower:
        changes = [msgspec.json.decode(follower.out()) for _ in range(2)]
    assert [(c["kind"], c["number"], c["message"]["content"]) for c in changes] == [
        ("message", 1, "first"),
        ("message", 2, "one"),
    ]
    assert {c["unifiedId"] for c in changes} == {f"claude:{ID}"}


def test_a_sub_agent_gets_a_heading(cli: Cli, session: ClaudeSession) -> None:
    agent = ClaudeSession(cli.home, ID)
    agent.prompt("the task", isSidechain=True, agentId="aa", uuid="aa-1")
    agent.write(session.path.with_suffix("") / "subagents" / "agent-aa.jsonl")
    with following(cli, ID, "--from-start") as follower:
        printed = follower.until("the task")
    assert re.search(r"^one\n\n## Sub-agent `aa`\n\n### User\n", printed, re.MULTILINE)


def test_problems_and_the_end_of_a_followed_session_go_to_stderr(
    cli: Cli, session: ClaudeSession
) -> None:
    with following(cli, ID) as follower:
        follower.begun()
        with session.path.open("ab") as file:
            file.write(b"{oops\n")
        assert follower.begun().startswith(f"warning: claude:{ID}: a line is not valid JSON")
        session.path.unlink()
        assert follower.begun() == f"note: claude:{ID} no longer exists\n"
        assert follower.process.wait(timeout=30) == 0
        assert follower.out() == ""


def test_following_ends_when_the_output_pipe_is_closed(cli: Cli, session: ClaudeSession) -> None:
    with following(cli, ID, "--from-start") as follower:
        follower.until("one")
        assert follower.process.stdout is not None
        follower.process.stdout.close()
        assert follower.process.wait(timeout=30) == 0
        assert follower.process.stderr is not None
        assert (
            follower.process.stderr.read() == f"note: following claude:{ID}; press Ctrl-C to stop\n"
        )


def test_hostile_text_prints_no_control_characters(cli: Cli, session: ClaudeSession) -> None:
    session.prompt("x \x1b[2J \x9b31m \u202e y").prompt("last").write()
    for words in (["--json"], ["--color", "always"]):
        with following(cli, ID, "--from-start", *words) as follower:
            printed = COLOR.sub("", follower.until("last"))
        assert "x " in printed
        assert not set(printed) & {"\x1b", "\x9b", "\u202e"}


def test_following_imports_no_unneeded_modules(cli: Cli, session: ClaudeSession) -> None:
    code = (
        "import sys, threading, _thread\n"
        "from amux.__main__ import main\n"
        "threading.Timer(1.5, _thread.interrupt_main).start()\n"
        f"assert main(['follow', {ID!r}]) == 130\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)\n"
    )
    result = cli.python("-c", code)
    assert result.code == 0, result.err
    loaded = set(result.err.splitlines())
    assert not loaded & {"rich", "asyncio", "genai_prices", "amux.render.html"}


def test_an_unknown_session_is_an_error_like_everywhere(cli: Cli, session: ClaudeSession) -> None:
    assert cli("follow", "nope").code == 8
    assert Cli(cli.home / ".claude")("follow").code == 8
