"""A run reads the events of a real process, ends it with all its children, and is recorded."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fake_agents import CLAUDE, FakeAgents, group_members, is_alive

from amux import AmuxError, CapabilityError, ErrorCode, ValidationError
from amux.runs.events import AgentEvent
from amux.runs.run import RunResult

STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c",
    "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"])
note("child", child.pid)
say({"type": "system", "subtype": "init", "session_id": "s-1"})
time.sleep(600)
"""
"""An agent that ignores SIGTERM, with a child that does so, too."""


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_every_record_becomes_an_event_and_nothing_is_dropped(agents: FakeAgents) -> None:
    agents.answering("claude", CLAUDE)
    events = list(agents.client().run("claude", "which files?"))
    assert [event.type for event in events] == [
        *("session", "thinking", "usage", "tool_call", "tool_result", "unknown", "text", "usage"),
        *("usage", "cost", "end"),
    ]
    assert [event.raw for event in events if event.raw is not None] == CLAUDE
    call = next(event for event in events if event.type == "tool_call")
    assert (call.tool, call.call_id, call.input) == ("Bash", "t1", {"command": "ls"})
    found = next(event for event in events if event.type == "tool_result")
    assert (found.call_id, found.text, found.is_error) == ("t1", "a b", False)
    assert {event.run_id for event in events} == {events[0].run_id}
    assert all(event.session_id == "s-1" for event in events)


def test_the_result_has_the_answer_the_tokens_and_the_cost_of_the_agent(
    agents: FakeAgents,
) -> None:
    agents.answering("claude", CLAUDE)
    result = agents.client().run("claude", "which files?").wait()
    assert (result.status, result.exit_code, result.text) == ("ok", 0, "Two files.")
    assert (result.session_id, result.model) == ("s-1", "claude-opus-5-5")
    assert result.usage is not None
    assert (result.usage.input, result.usage.output) == (22, 40)
    assert (result.usage.cache_read, result.usage.cache_write) == (230, 20)
    assert result.cost is not None
    assert result.cost.total_usd == 0.0125


def test_a_line_is_written_at_the_start_and_one_at_the_end(agents: FakeAgents) -> None:
    agents.answering("claude", CLAUDE)
    client = agents.client()
    run = client.run("claude", "go", tags=["nightly", " nightly ", "x"], model="opus")
    (begun,) = agents.runs()
    assert begun["tags"] == ["nightly", "x"]
    assert begun["model"] == "opus"
    assert "cost" not in begun
    assert "sessionId" not in begun
    run.wait()
    assert len(agents.runs()) == 2
    ended = agents.runs()[1]
    assert ended["runId"] == begun["runId"] == run.run_id
    assert re.fullmatch(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", run.run_id)
    assert ended["sessionId"] == "s-1"
    assert ended["cost"]["totalUsd"] == 0.0125
    assert ended["timestamp"].endswith("Z")
    (recorded,) = client.runs.index().runs
    assert (recorded.session_id, recorded.tags) == ("s-1", ("nightly", "x"))
    folder = agents.home / ".agent-mux"
    assert (folder.stat().st_mode & 0o777, (folder / "run-index.jsonl").stat().st_mode & 0o777) == (
        0o700,
        0o600,
    )


def test_eight_runs_at_once_leave_sixteen_whole_lines(agents: FakeAgents) -> None:
    agents.answering("claude", CLAUDE)
    client = agents.client()

    def run_once(number: int) -> RunResult:
        return client.run("claude", f"{number}").wait()

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(run_once, range(8)))
    lines = agents.runs()
    assert len(lines) == 16
    assert len({line["runId"] for line in lines}) == 8
    assert {result.status for result in results} == {"ok"}
    assert len(client.runs.index().runs) == 8


def test_a_line_that_another_writer_left_torn_spoils_no_other(agents: FakeAgents) -> None:
    agents.answering("claude", CLAUDE)
    path = agents.home / ".agent-mux" / "run-index.jsonl"
    path.parent.mkdir()
    path.write_text('{"v":1,"runId":"TORN"')
    client = agents.client()
    client.run("claude", "go").wait()
    index = client.runs.index()
    assert len(index.runs) == 1
    assert [problem.line for problem in index.problems] == [1]


@pytest.mark.parametrize(
    "prompt",
    ["-x", "--help", "; rm -rf / $(touch no) `touch no`", "two\nlines\n\n", "日本語 🚀", "'\"\\"],
)
def test_a_prompt_arrives_literally(agents: FakeAgents, prompt: str) -> None:
    agents.answering("claude", CLAUDE)
    agents.client().run("claude", prompt).wait()
    given = agents.given("claude")
    assert given["argv"][-1] == prompt
    assert given["stdin"] == ""


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "qwen", "copilot", "opencode", "pi",
                                   "omp", "droid"])  # fmt: skip
def test_a_prompt_of_200_kilobytes_goes_to_the_standard_input(
    agents: FakeAgents, agent: str
) -> None:
    agents.answering(agent, [{"type": "session", "id": "s"}])
    prompt = "é-" * 67_000
    agents.client().run(agent, prompt).wait()
    given = agents.given(agent)
    assert given["stdin"] == prompt
    assert not any("é-" in word for word in given["argv"])


@pytest.mark.parametrize("agent", ["cursor", "hermes", "openclaw"])
def test_a_prompt_that_an_agent_cannot_take_is_refused_before_it_starts(
    agents: FakeAgents, agent: str
) -> None:
    agents.answering({"cursor": "cursor-agent"}.get(agent, agent), [])
    with pytest.raises(ValidationError, match="134000 bytes"):
        agents.client().run(agent, "x" * 134_000)
    assert agents.runs() == []


def test_a_prompt_that_opencode_would_put_into_quotes_goes_to_the_standard_input(
    agents: FakeAgents,
) -> None:
    agents.answering("opencode", [{"type": "text", "sessionID": "s", "part": {"text": "x"}}])
    agents.client().run("opencode", 'say "a b"').wait()
    given = agents.given("opencode")
    assert (given["argv"], given["stdin"]) == (["run", "--format", "json"], 'say "a b"')


@pytest.mark.parametrize("prompt", ["-x", "@file", "@"])
def test_a_prompt_that_pi_would_misread_goes_to_the_standard_input(
    agents: FakeAgents, prompt: str
) -> None:
    agents.answering("pi", [{"type": "session", "id": "s"}])
    agents.client().run("pi", prompt).wait()
    assert agents.given("pi") == {
        "argv": ["--mode", "json", "-p"], "cwd": str(Path.cwd()), "stdin": prompt,
    }  # fmt: skip


@pytest.mark.parametrize(
    "given",
    [
        {"session": "a", "fork": "b"},
        {"session": "a", "no_session": True},
        {"fork": "b", "no_session": True},
        {"timeout": 0},
        {"inactivity_timeout": -1.0},
        {"approval_mode": "maybe"},
        {"cwd": "/nowhere/at/all"},
        {"colour": "red"},
        {"args": "one text"},
        {"tags": "one text"},
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    agents: FakeAgents, given: dict[str, object]
) -> None:
    agents.answering("claude", CLAUDE)
    with pytest.raises(ValidationError):
        agents.client().run("claude", "go", **given)
    assert agents.runs() == []


def test_a_run_needs_a_prompt(agents: FakeAgents) -> None:
    agents.answering("claude", CLAUDE)
    with pytest.raises(ValidationError, match="prompt"):
        agents.client().run("claude", "")


@pytest.mark.parametrize("way", ["session", "fork"])
def test_an_id_that_looks_like_an_option_never_reaches_an_agent(
    agents: FakeAgents, way: str
) -> None:
    agents.answering("claude", CLAUDE)
    hostile: dict[str, str] = {way: "--dangerously-skip-permissions"}
    with pytest.raises(ValidationError, match="is not the id of a session"):
        agents.client().runs.plan("claude", "go", native=True, **hostile)  # type: ignore[arg-type]  # `native` is the only switch
    assert agents.runs() == []


def test_several_texts_are_one_prompt(agents: FakeAgents) -> None:
    agents.answering("claude", CLAUDE)
    agents.client().run("claude", ["one", "two"]).wait()
    assert agents.given("claude")["argv"][-1] == "one\n\ntwo"


def test_an_agent_that_cannot_fork_is_refused_before_anything_starts(agents: FakeAgents) -> None:
    agents.answering("gemini", [])
    with pytest.raises(CapabilityError) as refused:
        agents.client().run("gemini", "go", fork="abc")
    assert refused.value.capability == "can_fork"
    assert agents.versions_asked == 0
    assert agents.runs() == []


def test_a_version_that_is_too_old_is_refused_before_a_run_is_recorded(agents: FakeAgents) -> None:
    agents.answering("codex", [], version="0.20.0")
    with pytest.raises(CapabilityError, match=r"Codex 0\.20\.0 cannot resume"):
        agents.client().run("codex", "go", session="abc", native=True)
    assert agents.runs() == []


def test_an_agent_that_is_not_installed_has_its_own_error(agents: FakeAgents) -> None:
    with pytest.raises(AmuxError) as missing:
        agents.client().run("claude", "go")
    assert missing.value.code is ErrorCode.AGENT_NOT_INSTALLED
    assert agents.runs() == []


def test_a_program_that_cannot_be_started_is_a_spawn_error(agents: FakeAgents) -> None:
    program = agents.folder / "claude"
    program.write_text("#!/nowhere/python\n")
    program.chmod(0o755)
    with pytest.raises(AmuxError) as failed:
        agents.client().run("claude", "go")
    assert failed.value.code is ErrorCode.SPAWN_ERROR


def test_an_index_that_cannot_be_written_keeps_the_agent_from_starting(agents: FakeAgents) -> None:
    agents.answering("claude", CLAUDE)
    (agents.home / ".agent-mux").write_text("a file, not a directory")
    with pytest.raises(AmuxError, match="cannot be written") as refused:
        agents.client().run("claude", "go")
    assert refused.value.code is ErrorCode.CONFIG_ERROR
    assert not (agents.folder / "claude.json").exists()


def test_the_program_is_asked_for_its_version_only_if_that_matters(agents: FakeAgents) -> None:
    agents.answering("claude", CLAUDE)
    agents.client().run("claude", "go").wait()
    assert agents.versions_asked == 0
    agents.answering("gemini", [{"type": "init", "session_id": "s"}], version="0.61.0")
    agents.client().run("gemini", "go").wait()
    assert agents.versions_asked == 1
    assert agents.given("gemini")["argv"][:2] == ["-o", "stream-json"]


def test_a_crash_is_a_failed_run_with_the_words_of_the_agent(agents: FakeAgents) -> None:
    agents.add("claude", "print('no credit left', file=sys.stderr); sys.exit(3)")
    result = agents.client().run("claude", "go").wait()
    assert (result.status, result.exit_code) == ("failed", 3)
    assert result.error_code is ErrorCode.AGENT_CRASH
    assert "exit code 3: no credit left" in (result.error or "")
    with pytest.raises(AmuxError) as raised:
        result.raise_for_status()
    assert raised.value.exit_code == 12


def test_an_error_that_the_agent_reports_with_exit_code_zero_is_a_failure(
    agents: FakeAgents,
) -> None:
    agents.answering("claude", [{"type": "result", "is_error": True, "result": "API Error: 500"}])
    result = agents.client().run("claude", "go").wait()
    assert result.status == "failed"
    assert "API Error: 500" in (result.error or "")


def test_a_killed_agent_is_a_failure_and_its_run_has_both_lines(agents: FakeAgents) -> None:
    agents.add("claude", "os.kill(os.getpid(), signal.SIGKILL)")
    result = agents.client().run("claude", "go").wait()
    assert (result.status, result.exit_code) == ("failed", -9)
    assert len(agents.runs()) == 2


def test_garbage_is_passed_on_and_the_run_fails(agents: FakeAgents) -> None:
    agents.add("claude", "os.write(1, b'\\xff\\xfe garbage\\nnot JSON\\n[1]\\n{\"type\": 7}')")
    run = agents.client().run("claude", "go")
    events = list(run)
    assert [event.type for event in events] == ["unknown"] * 4 + ["end"]
    assert events[1].text == "not JSON"
    assert events[3].raw == {"type": 7}
    result = run.wait()
    assert (result.status, result.error_code) == ("failed", ErrorCode.PARSE_ERROR)


@pytest.mark.parametrize("ending", ["", "\\n"])
def test_a_hundred_megabytes_fill_no_memory(agents: FakeAgents, ending: str) -> None:
    agents.add("claude", f"for _ in range(100): os.write(1, b'x' * (1 << 20) + b'{ending}')")
    done = agents.python(
        "import amux, re\n"
        "result = amux.create_client().run('claude', 'go').wait()\n"
        "status = open('/proc/self/status').read()  # `ru_maxrss` would be that of this test\n"
        "print(result.error_code, re.search(r'VmHWM:\\s*(\\d+)', status).group(1))\n"
    )
    code, kilobytes = done.split()
    assert code == "PARSE_ERROR"
    assert int(kilobytes) < 100 * 1024  # an empty run takes 35 MB


def test_an_agent_that_hangs_is_ended_with_its_children(agents: FakeAgents) -> None:
    agents.add("claude", STUBBORN)
    run = agents.client().run("claude", "go", timeout=3.0, grace=0.2)
    events = list(run)
    result = run.wait()
    assert (result.status, result.error_code) == ("timeout", ErrorCode.TIMEOUT)
    assert (events[-1].type, events[-1].status) == ("end", "timeout")
    assert run.pid is not None
    assert group_members(run.pid) == []
    assert not is_alive(int(agents.noted("child")))


def test_silence_has_a_limit_of_its_own(agents: FakeAgents) -> None:
    agents.add("claude", STUBBORN)
    result = agents.client().run("claude", "go", inactivity_timeout=3.0, grace=0.1).wait()
    assert (result.status, result.error_code) == ("timeout", ErrorCode.INACTIVITY_TIMEOUT)
    assert not is_alive(int(agents.noted("child")))


def test_an_agent_that_speaks_is_not_silent(agents: FakeAgents) -> None:
    body = "for n in range(16): say({'type': 'tick', 'n': n}); time.sleep(0.25)\n"
    agents.add("claude", body + "say({'type': 'result', 'result': 'done'})")
    result = agents.client().run("claude", "go", inactivity_timeout=3.0).wait()
    assert (result.status, result.text) == ("ok", "done")


def test_waiting_has_a_limit(agents: FakeAgents) -> None:
    agents.add("claude", STUBBORN)
    run = agents.client().run("claude", "go", grace=0.1)
    assert run.wait(timeout=3.0).status == "timeout"
    assert not is_alive(int(agents.noted("child")))


def test_another_thread_may_abort(agents: FakeAgents) -> None:
    agents.add("claude", STUBBORN)
    run = agents.client().run("claude", "go", grace=0.1)
    first = next(run)
    assert first.type == "session"
    threading.Thread(target=run.abort, args=(0.1,)).start()
    result = run.wait()
    assert (result.status, result.error_code) == ("aborted", ErrorCode.ABORTED)
    assert not is_alive(int(agents.noted("child")))


def test_an_interrupted_agent_may_end_in_its_own_way(agents: FakeAgents) -> None:
    agents.add(
        "claude",
        "def end(*_):\n"
        '    os.write(1, b\'{"type": "result", "result": "half"}\\n\'); os._exit(0)\n'
        "signal.signal(signal.SIGINT, end)\n"
        "say({'type': 'system', 'subtype': 'init', 'session_id': 's'})\n"
        "time.sleep(600)",
    )
    run = agents.client().run("claude", "go")
    next(run)
    run.interrupt()
    result = run.wait()
    assert (result.status, result.text) == ("aborted", "half")


def test_a_context_that_is_left_early_ends_the_agent(agents: FakeAgents) -> None:
    agents.add("claude", STUBBORN)
    with agents.client().run("claude", "go", grace=0.1) as run:
        next(run)
    assert not is_alive(int(agents.noted("child")))
    assert len(agents.runs()) == 2


def test_a_run_that_is_left_early_keeps_no_descriptor_and_has_no_more_events(
    agents: FakeAgents,
) -> None:
    agents.answering("claude", CLAUDE)
    client = agents.client()
    client.run("claude", "go").wait()
    before = open_files()
    runs = [client.run("claude", "go") for _ in range(3)]
    for run in runs:
        with run:
            next(run)
        assert list(run) == []
        assert run.wait().run_id == run.run_id
    assert open_files() == before


def test_children_that_an_ended_agent_left_behind_are_ended(agents: FakeAgents) -> None:
    agents.add(
        "claude",
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "note('child', child.pid)\n"
        "say({'type': 'result', 'result': 'done', 'session_id': 's'})\n",
    )
    result = agents.client().run("claude", "go").wait()  # the child holds the pipe open
    assert (result.status, result.text) == ("ok", "done")
    assert not is_alive(int(agents.noted("child")))


def test_a_program_that_ends_without_finishing_a_run_leaves_no_agent(agents: FakeAgents) -> None:
    agents.add("claude", STUBBORN)
    told = agents.python(
        "import amux\n"
        "run = amux.create_client().run('claude', 'go', grace=0.1)\n"
        "print(run.pid, next(run).type)\n"
    )
    pid, kind = told.split()
    assert kind == "session"
    assert group_members(int(pid)) == []


def test_a_dry_run_starts_and_records_nothing(agents: FakeAgents) -> None:
    agents.answering("claude", CLAUDE)
    run = agents.client().run("claude", "go", dry_run=True)
    assert run.launch.argv[1:] == ("-p", "--output-format", "stream-json", "--verbose", "go")
    assert list(run) == []
    assert run.wait().status == "ok"
    assert agents.runs() == []
    assert not (agents.folder / "claude.json").exists()


def test_a_run_without_a_session_counts_its_cost_without_one(agents: FakeAgents) -> None:
    agents.answering("claude", CLAUDE)
    client = agents.client()
    client.run("claude", "go", no_session=True).wait()
    assert "--no-session-persistence" in agents.given("claude")["argv"]
    ended = agents.runs()[1]
    assert "sessionId" not in ended
    total = client.sessions.total_cost()
    assert (total.run_count, total.session_count) == (1, 0)
    assert total.total_usd == pytest.approx(0.0125)


def test_tokens_without_a_session_and_without_a_cost_are_estimated(agents: FakeAgents) -> None:
    agents.answering(
        "codex",
        [
            {"type": "thread.started", "thread_id": "t"},
            {"type": "turn.completed", "usage": {
                "input_tokens": 1000, "cached_input_tokens": 200, "output_tokens": 100}},
        ],
    )  # fmt: skip
    client = agents.client()
    result = client.run("codex", "go", no_session=True, model="gpt-5-codex").wait()
    estimate = client.models.estimate_cost("codex", "gpt-5-codex", 800, 100, cached_tokens=200)
    assert estimate > 0
    assert result.cost is not None
    assert result.cost.total_usd == estimate
    assert client.sessions.total_cost().total_usd == pytest.approx(estimate)


def test_environment_and_directory_reach_the_agent(agents: FakeAgents, tmp_path: Path) -> None:
    agents.add(
        "claude", "say({'type': 'result', 'result': os.getcwd() + ' ' + os.environ['EXTRA']})"
    )
    (tmp_path / "work").mkdir()
    run = agents.client().run("claude", "go", cwd=tmp_path / "work", env={"EXTRA": "more"})
    assert run.wait().text == f"{tmp_path / 'work'} more"


def test_events_can_be_sent_as_json(agents: FakeAgents) -> None:
    agents.answering("claude", CLAUDE)
    with agents.client().run("claude", "go") as run:
        event = next(run)
    assert isinstance(event, AgentEvent)
    told = event.to_dict()
    assert (told["type"], told["sessionId"]) == ("session", "s-1")


def test_the_agent_leads_a_group_of_its_own(agents: FakeAgents) -> None:
    agents.add("claude", "say({'type': 'result', 'result': str(os.getpgid(0))})")
    run = agents.client().run("claude", "go")
    assert run.wait().text == str(run.pid)
