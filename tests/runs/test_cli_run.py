"""`amux run`: the command, the events, the exit codes, and what signals leave behind."""

from __future__ import annotations

import json
import shlex
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from builders import write_claude
from fake_agents import CLAUDE, FakeAgents, group_members, is_alive
from test_run import STUBBORN

PROMPT = "go on; rm -rf / $(touch no) `touch no` 'quoted' \"twice\"\n-two"


def test_the_answer_goes_to_stdout_and_nothing_else_to_a_pipe(agents: FakeAgents) -> None:
    agents.answering("claude", CLAUDE)
    done = agents.amux("run", "claude", PROMPT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Two files.\n", "")
    assert agents.given("claude")["argv"][-1] == PROMPT


def test_an_answer_that_no_event_contains_is_printed(agents: FakeAgents) -> None:
    agents.answering("claude", [CLAUDE[0], CLAUDE[-1]])
    assert agents.amux("run", "claude", "go").stdout == "Two files.\n"


def test_events_are_lines_of_json(agents: FakeAgents) -> None:
    agents.answering("claude", CLAUDE)
    done = agents.amux("run", "claude", "go", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["raw"] for event in events if "raw" in event] == CLAUDE
    assert events[-1]["type"] == "end"
    assert (events[-1]["status"], events[-1]["exitCode"]) == ("ok", 0)


def test_a_dry_run_prints_a_command_that_a_shell_reads_back(agents: FakeAgents) -> None:
    agents.answering("claude", CLAUDE)
    done = agents.amux("run", "claude", PROMPT, "--dry-run", "--model", "opus")
    program, *words = shlex.split(done.stdout)
    assert program == str(agents.folder / "claude")
    assert words == ["-p", "--model", "opus", "--output-format", "stream-json", "--verbose", PROMPT]
    assert not (agents.folder / "claude.json").exists()
    assert agents.runs() == []


def test_the_model_may_be_named_before_the_command(agents: FakeAgents) -> None:
    agents.answering("claude", CLAUDE)
    assert "--model opus" in agents.amux("-m", "opus", "run", "claude", "x", "--dry-run").stdout
    assert "--model" not in agents.amux("run", "claude", "x", "--dry-run").stdout


def test_a_dry_run_imports_nothing_heavy(agents: FakeAgents) -> None:
    agents.answering("claude", CLAUDE)
    probe = (
        "import sys; from amux.__main__ import main; main(['run', 'claude', 'x', '--dry-run'])\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], env=agents.env, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith(str(agents.folder))
    modules = set(done.stderr.splitlines())
    heavy = {"msgspec", "typing", "subprocess", "asyncio", "sqlite3", "rich", "shutil", "signal"}
    assert not modules & {*heavy, "amux.client", "amux.adapters", "amux.runs.launch"}


def test_a_dry_run_as_json_has_the_words_of_the_command(agents: FakeAgents) -> None:
    agents.answering("claude", CLAUDE)
    plain = shlex.split(agents.amux("run", "claude", "go", "--dry-run").stdout)
    told = json.loads(agents.amux("run", "claude", "go", "--dry-run", "--json").stdout)
    assert told["argv"] == plain
    assert (told["agent"], told["action"]) == ("claude", "new")


def test_a_prompt_may_begin_with_a_dash_or_come_from_stdin(agents: FakeAgents) -> None:
    agents.answering("claude", CLAUDE)
    assert agents.amux("run", "claude", "--", "--version").returncode == 0
    assert agents.given("claude")["argv"][-2:] == ["--", "--version"]
    long = "word " * 40_000
    assert agents.amux("run", "claude", "-", stdin=long).returncode == 0
    assert agents.given("claude")["stdin"] == long


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        ("run nobody go", 3, "AGENT_NOT_FOUND"),
        ("run codex go", 4, "AGENT_NOT_INSTALLED"),
        ("run gemini go --fork x", 6, "CAPABILITY_ERROR"),
        ("run gemini go --no-session", 6, "CAPABILITY_ERROR"),
        ("run claude go --session a --fork b", 2, "VALIDATION_ERROR"),
        ("run claude go --timeout soon", 2, "VALIDATION_ERROR"),
        ("run claude go --timeout 0", 2, "VALIDATION_ERROR"),
        ("run claude go --cwd /nowhere/at/all", 2, "VALIDATION_ERROR"),
        ("run go", 3, "AGENT_NOT_FOUND"),
        ("run --session nothing go", 8, "SESSION_NOT_FOUND"),
        ("run claude", 1, "PTY_NOT_AVAILABLE"),
        ("run claude go --demo", 2, "VALIDATION_ERROR"),
    ],
)
def test_what_cannot_run_ends_with_its_code_before_anything_starts(
    agents: FakeAgents, words: str, code: int, error: str
) -> None:
    agents.answering("claude", CLAUDE)
    agents.answering("gemini", CLAUDE)
    done = agents.amux(*words.split(), "--json")
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (code, error)
    assert "Traceback" not in done.stderr
    assert agents.runs() == []


@pytest.mark.parametrize(
    ("body", "words", "code", "message"),
    [
        ("sys.exit(7)", (), 12, "ended with exit code 7"),
        ("os.abort()", (), 12, "was killed by signal 6"),
        ("print('garbage')", (), 1, "printed nothing that amux understands"),
        ("time.sleep(600)", ("--timeout", "0.5"), 11, "took too long"),
        ("time.sleep(600)", ("--inactivity-timeout", "0.5"), 11, "printed nothing for too long"),
    ],
)
def test_a_run_that_fails_ends_with_the_documented_code(
    agents: FakeAgents, body: str, words: tuple[str, ...], code: int, message: str
) -> None:
    agents.add("claude", body)
    for is_json in (False, True):
        done = agents.amux("run", "claude", "go", *words, *(["--json"] if is_json else []))
        assert done.returncode == code
        (error,) = done.stderr.splitlines()
        assert message in error
        events = [json.loads(line) for line in done.stdout.splitlines()]
        assert [event["type"] for event in events][-1:] == (["end"] if is_json else [])


@pytest.mark.parametrize("prompt", ["", "  \n", "-"])
@pytest.mark.parametrize("option", ["--tag=x", "--dry-run"])
def test_a_blank_prompt_is_refused(agents: FakeAgents, prompt: str, option: str) -> None:
    agents.answering("claude", CLAUDE)
    done = agents.amux("run", "claude", prompt, option)
    assert (done.returncode, done.stdout) == (2, "")
    assert "needs a prompt" in done.stderr
    assert agents.runs() == []


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_amux_leaves_no_process(agents: FakeAgents, sign: signal.Signals) -> None:
    told = "signal.signal(signal.SIGTERM, lambda *_: note('told', 'x'))"
    wait = f"{told}\nnote('agent', os.getpid())\ntime.sleep(600)\n"
    body = STUBBORN.replace("time.sleep(600)\n", wait)
    agents.add("claude", body)
    with subprocess.Popen(
        agents.command("run", "claude", "go"),
        env=agents.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as amux:
        child, agent = int(agents.noted("child")), int(agents.noted("agent"))
        amux.send_signal(sign)  # the agent and its child survive SIGTERM
        agents.noted("told")
        amux.send_signal(sign)
        _, error = amux.communicate(timeout=30)
    assert amux.returncode == 13
    assert "was stopped" in error
    assert not is_alive(child)
    assert group_members(agent) == []
    assert len(agents.runs()) == 2


def test_a_reader_that_goes_away_ends_the_agent(agents: FakeAgents) -> None:
    body = "note('agent', os.getpid())\nwhile True: say({'type': 'tick', 'text': 'x' * 5000})"
    agents.add("claude", body)
    with subprocess.Popen(
        agents.command("run", "claude", "go", "--json"),
        env=agents.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as amux:
        assert amux.stdout is not None
        amux.stdout.readline()
        amux.stdout.close()
        assert amux.wait(timeout=30) == 0
        assert amux.stderr is not None
        assert amux.stderr.read() == b""
    assert group_members(int(agents.noted("agent"))) == []


def test_further_arguments_and_the_approval_mode_reach_the_agent(agents: FakeAgents) -> None:
    agents.answering("claude", CLAUDE)
    agents.amux("run", "claude", "go", "--arg=--allowedTools", "--arg=Bash", "--approval-mode=yolo")
    given = agents.given("claude")["argv"]
    assert "--dangerously-skip-permissions" in given
    assert given[given.index("--allowedTools") + 1] == "Bash"


def test_tags_of_a_run_show_on_its_session_and_its_cost_is_counted_once(
    agents: FakeAgents,
) -> None:
    session = write_claude(agents.home, 1)
    records = [{**each, "session_id": session.session_id} for each in CLAUDE]
    agents.answering("claude", records)
    before = json.loads(agents.amux("cost", "--json").stdout)
    assert agents.amux("run", "claude", "go", "--tag", "nightly", "--tag", "x").returncode == 0
    (listed,) = json.loads(agents.amux("list", "--tag", "nightly", "--json").stdout)
    assert listed["sessionId"] == session.session_id
    assert listed["tags"] == ["nightly", "x"]
    after = json.loads(agents.amux("cost", "--json").stdout)
    assert (before["runCount"], after["runCount"]) == (0, 1)
    assert after["sessionCount"] == before["sessionCount"] == 1


def test_the_client_that_ran_it_sees_the_tags(agents: FakeAgents) -> None:
    session = write_claude(agents.home, 1)
    client = agents.client()
    assert client.sessions.list("claude")[0].tags == ()
    records = [{**each, "session_id": session.session_id} for each in CLAUDE]
    agents.answering("claude", records)
    client.run("claude", "go", tags=["nightly"]).wait()
    assert client.sessions.list("claude")[0].tags == ("nightly",)


@pytest.mark.parametrize("way", ["session", "fork"])
@pytest.mark.parametrize("form", ["prefix", "unified", "title"])
def test_a_session_is_resumed_or_forked_in_its_own_directory(
    agents: FakeAgents, tmp_path: Path, way: str, form: str
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    session = write_claude(agents.home, 1, cwd=str(project))
    agents.answering("claude", CLAUDE)
    title = agents.client().sessions.list("claude")[0].title
    named = {
        "prefix": session.session_id[:12],
        "unified": f"claude:{session.session_id}",
        "title": title,
    }
    done = agents.amux("run", f"--{way}", str(named[form]), "go on")
    assert done.returncode == 0, done.stderr
    given = agents.given("claude")
    assert given["cwd"] == str(project)
    assert given["argv"][given["argv"].index("--resume") + 1] == session.session_id
    assert ("--fork-session" in given["argv"]) == (way == "fork")
    begun = agents.runs()[0]
    assert begun.get("sessionId") == (session.session_id if way == "session" else None)


def test_a_directory_that_is_gone_needs_a_decision(agents: FakeAgents, tmp_path: Path) -> None:
    session = write_claude(agents.home, 1, cwd=str(tmp_path / "gone"))
    agents.answering("claude", CLAUDE)
    words = ("sessions", "resume", "claude", session.session_id, "--prompt", "go")
    done = agents.amux(*words)
    assert done.returncode == 1
    assert "no longer exists" in done.stderr
    assert "--cwd" in done.stderr
    assert agents.runs() == []
    done = agents.amux(*words, "--cwd", str(tmp_path))
    assert (done.returncode, agents.given("claude")["cwd"]) == (0, str(tmp_path))


def test_eight_processes_write_whole_lines(agents: FakeAgents) -> None:
    agents.answering("claude", CLAUDE)
    started = [
        subprocess.Popen(agents.command("run", "claude", f"{n}"), env=agents.env,
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        for n in range(8)
    ]  # fmt: skip
    assert {process.wait(timeout=60) for process in started} == {0}
    lines = agents.runs()
    assert (len(lines), len({line["runId"] for line in lines})) == (16, 8)


def test_the_run_index_is_the_only_file_that_a_run_writes(agents: FakeAgents) -> None:
    agents.answering("claude", CLAUDE)
    agents.amux("run", "claude", "go")
    written = {str(path.relative_to(agents.home)) for path in agents.home.rglob("*")}
    assert written == {".agent-mux", ".agent-mux/run-index.jsonl"}


def stored_rows(folder: Path) -> set[tuple[str, int]]:
    """The rows of the index; one that is written anew has another number."""
    (path,) = (folder / "cache").glob("index-*.db")
    database = sqlite3.connect(path)
    found = database.execute("SELECT id, rowid FROM session").fetchall()
    database.close()
    return set(found)


def test_a_run_computes_one_cluster_of_the_index_anew(agents: FakeAgents, tmp_path: Path) -> None:
    sessions = [write_claude(agents.home, n) for n in range(1, 6)]
    assert len(json.loads(agents.amux("list", "--json").stdout)) == 5
    before = stored_rows(tmp_path)
    records = [{**each, "session_id": sessions[2].session_id} for each in CLAUDE]
    agents.answering("claude", records)
    assert agents.amux("run", "claude", "go").returncode == 0
    agents.amux("list", "--json")
    changed = stored_rows(tmp_path) - before
    assert [session for session, _ in changed] == [sessions[2].session_id]


def test_help_names_the_commands(agents: FakeAgents) -> None:
    text = agents.amux("--help").stdout
    assert "\n    run " in text
    assert "\n    resume " in text
