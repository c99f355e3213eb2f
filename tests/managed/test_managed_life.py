"""The life of managed sessions: creation, mapping, saving, ending, handing off, deleting."""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from managed_home import ManagedHome, ServerProcess, wait_until

from amux import AgentNotFoundError, SessionNotFoundError, ValidationError
from amux.errors import AmuxError, ErrorCode, TurnInProgressError
from amux.managed.state import TRANSITIONS, SessionState, SessionStatus

COMPARISON = Path(__file__).parent / "comparison.md"
V4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
AGENTS = ("claude", "droid", "opencode")


def value_of(argv: list[str], *flags: str) -> str | None:
    """The value of an option, by its long or its short name."""
    found = [argv[n + 1] for n, word in enumerate(argv[:-1]) if word in flags]
    return found[0] if found else None


def wait_for_process(home: ManagedHome, number: int = 1) -> None:
    """Wait until so many programs have begun to answer."""
    wait_until(lambda: len([c for c in home.calls() if c["session"]]) >= number)


@pytest.mark.parametrize("agent", AGENTS)
def test_creation_makes_a_uuid_starts_the_agent_and_stores_the_mapping(
    managed_home: ManagedHome, opencode_server: ServerProcess, agent: str
) -> None:
    managed = managed_home.managed
    info = managed.create_session(agent, "hello", cwd=str(managed_home.project), metadata={"a": 1})
    assert V4.fullmatch(info.id)
    assert info.text == "Answer to: hello"
    state = managed_home.managed.get(info.id)
    assert (state.status, state.metadata["a"], state.cwd) == (
        SessionStatus.IDLE,
        1,
        str(managed_home.project),
    )
    assert state.prompt_history == ("hello",)
    assert state.unified_id == f"{agent}:{state.agent_session_id}"
    assert state.agent_session_id is not None
    assert managed.map(agent, state.agent_session_id) == info.id
    ref = managed.translate(info.id)
    assert ref is not None
    assert ref.native_session_id == state.agent_session_id
    assert managed.get(str(state.unified_id)).id == managed.get(info.id[:8]).id == info.id


def test_ids_are_unique(managed_home: ManagedHome) -> None:
    managed = managed_home.managed
    made = [managed.create_session("droid").id for _ in range(30)]
    assert len(set(made)) == 30


def test_a_session_without_a_prompt_has_no_id_of_the_agent_yet(managed_home: ManagedHome) -> None:
    managed = managed_home.managed
    info = managed.create_session("droid", cwd=str(managed_home.project))
    assert (info.status, managed.translate(info.id)) == (SessionStatus.CREATED, None)
    assert managed_home.calls() == []
    managed.resume_session(info.id, "go", strategy="resume_or_new")
    assert managed.translate(info.id) is not None


@pytest.mark.parametrize(
    ("agent", "code"),
    [("droid", ErrorCode.AGENT_NOT_INSTALLED), ("opencode", ErrorCode.SPAWN_ERROR)],
)
def test_an_agent_that_cannot_start_leaves_a_row_with_the_error_and_no_ghost(
    managed_home: ManagedHome, agent: str, code: ErrorCode
) -> None:
    shutil.rmtree(managed_home.bin)
    managed_home.configure(opencode={"server_url": "http://127.0.0.1:1"})
    with pytest.raises(AmuxError) as caught:
        managed_home.managed.create_session(agent, "hello")
    assert caught.value.code == code
    (row,) = managed_home.managed.list_sessions()
    assert (row.status, row.last_error) == (SessionStatus.CRASHED, str(caught.value))
    assert row.last_prompt == "hello"
    (offer,) = managed_home.managed.recover()
    assert offer.choices == ("new", "export", "discard")


def test_wrong_requests_store_nothing(managed_home: ManagedHome) -> None:
    managed = managed_home.managed
    with pytest.raises(AgentNotFoundError):
        managed.create_session("nobody", "hello")
    wrong: tuple[dict[str, Any], ...] = (
        {"colour": "red"},
        {"autonomy": "maximal"},
        {"fork_session": "yes"},
    )
    for options in wrong:
        with pytest.raises(ValidationError):
            managed.create_session("droid", "hello", **options)
    for bad in ("", "  ", ["ok", ""]):
        with pytest.raises(ValidationError):
            managed.create_session("droid", bad)
    with pytest.raises(ValidationError):
        managed.create_session("droid", "hello", cwd="/does/not/exist")
    assert managed.list_sessions() == []


def test_droid_needs_a_prompt_to_resume_and_is_not_started_without_one(
    managed_home: ManagedHome,
) -> None:
    managed = managed_home.managed
    info = managed.create_session("droid", "hello", cwd=str(managed_home.project))
    with pytest.raises(ValidationError, match="needs a prompt"):
        managed.resume_session(info.id)
    assert len(managed_home.calls("droid")) == 1
    managed_home.configure(droid={"prompt_required_for_resume": False})
    assert managed_home.managed.resume_session(info.id).resume_count == 1


def test_droid_gets_the_documented_arguments_and_its_prompts_are_kept(
    managed_home: ManagedHome,
) -> None:
    managed = managed_home.managed
    info = managed.create_session(
        "droid", "first", cwd=str(managed_home.project), model="m-1", autonomy="low"
    )
    managed.resume_session(info.id, "-second; rm -rf /")
    new, resumed = (call["argv"] for call in managed_home.calls("droid"))
    assert new[0] == resumed[0] == "exec"
    assert value_of(new, "-s", "--session-id") is None
    assert value_of(resumed, "-s", "--session-id") == info.agent_session_id
    assert managed_home.prompts("droid")[-1] == "-second; rm -rf /"
    for argv in (new, resumed):
        assert value_of(argv, "--auto") == "low"
        assert value_of(argv, "-m", "--model") == "m-1"
    document = json.loads((managed_home.base / "droid" / f"{info.id}.json").read_text())
    pairs = [(p["id"], p["prompt"], p["model"], p["autonomy"]) for p in document["pairs"]]
    assert pairs == [
        (info.agent_session_id, "first", "m-1", "low"),
        (info.agent_session_id, "-second; rm -rf /", "m-1", "low"),
    ]


def test_several_prompts_go_to_one_process_of_droid(managed_home: ManagedHome) -> None:
    managed = managed_home.managed
    info = managed.create_session("droid", ["one", "two", "three"], cwd=str(managed_home.project))
    (call,) = managed_home.calls("droid")
    assert call["argv"][:5] == [
        *("exec", "--input-format", "stream-json", "--output-format", "stream-json"),
    ]
    assert (info.text, info.agent_session_id) == ("Answer to: three", info.agent_session_id)
    history = managed_home.client().sessions.get("droid", str(info.agent_session_id))
    assert [m.content for m in history.messages if m.role == "user"] == ["one", "two", "three"]
    assert managed_home.living() == []


def test_a_long_prompt_that_droid_does_not_read_ends_after_the_timeout(
    managed_home: ManagedHome,
) -> None:
    program = managed_home.bin / "droid"
    program.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(600)\n")
    managed_home.configure(droid={"timeout": 0.5})
    with pytest.raises(AmuxError) as caught:
        managed_home.managed.create_session("droid", ["x" * 200_000, "more"])
    assert caught.value.code is ErrorCode.INACTIVITY_TIMEOUT


def test_several_prompts_of_another_agent_are_one_resume_each(managed_home: ManagedHome) -> None:
    managed_home.configure(claude={"api": "cli"})
    info = managed_home.managed.create_session(
        "claude", ["one", "two"], cwd=str(managed_home.project)
    )
    assert info.text == "Answer to: two"
    assert len(managed_home.calls("claude")) == 2


def test_the_sdk_gets_the_options_of_the_session(managed_home: ManagedHome) -> None:
    managed = managed_home.managed
    chosen = "12345678-1234-4234-8234-123456789abc"
    info = managed.create_session(
        "claude",
        "hello",
        cwd=str(managed_home.project),
        permission_mode="plan",
        include_partial_messages=True,
        session_id=chosen,
    )
    assert info.agent_session_id == chosen
    (argv,) = (call["argv"] for call in managed_home.calls("claude"))
    assert argv[argv.index("--permission-mode") + 1] == "plan"
    assert "--include-partial-messages" in argv
    fork = managed.resume_session(info.id, "fork it", fork_session=True)
    assert fork.agent_session_id != chosen
    assert managed.map("claude", chosen) == info.id


def test_opencode_continues_the_last_session_of_the_directory_if_asked(
    managed_home: ManagedHome,
) -> None:
    managed_home.configure(opencode={"server_mode": False})
    managed = managed_home.managed
    first = managed.create_session("opencode", "one", cwd=str(managed_home.project))
    second = managed.create_session(
        "opencode", "two", cwd=str(managed_home.project), continue_last=True
    )
    assert second.agent_session_id == first.agent_session_id
    assert "-c" in managed_home.calls("opencode")[1]["argv"]
    managed.resume_session(second.id, "three", attach="http://127.0.0.1:4096")
    argv = managed_home.calls("opencode")[2]["argv"]
    assert value_of(argv, "-s", "--session") == first.agent_session_id
    assert value_of(argv, "--attach") == "http://127.0.0.1:4096"
    assert "-c" not in argv


def test_only_legal_changes_of_status_are_accepted(managed_home: ManagedHome) -> None:
    managed = managed_home.managed
    every = set(SessionStatus)
    info = managed.create_session("droid")
    now = managed.get(info.id).created_at
    for before, legal in TRANSITIONS.items():
        for after in every - legal - {before}:
            state = SessionState(
                id=info.id, agent_type="droid", created_at=now, updated_at=now, status=before
            )
            with pytest.raises(AmuxError) as caught:
                state.replace(status=after)
            assert caught.value.code == ErrorCode.INVALID_STATE_TRANSITION
    with pytest.raises(AmuxError) as caught:
        managed.save_session_state(info.id, {"status": "archived"})
    assert caught.value.code == ErrorCode.INVALID_STATE_TRANSITION


def test_callers_save_metadata_and_cannot_change_the_identity(managed_home: ManagedHome) -> None:
    managed = managed_home.managed
    info = managed.create_session("droid")
    managed.save_session_state(info.id, {"last_error": "x", "note": 1, "metadata": {"deep": [2]}})
    state = managed_home.managed.get(info.id)
    assert (state.last_error, state.metadata) == ("x", {"note": 1, "deep": [2]})
    for wrong in ({"id": "y"}, {"created_at": "now"}, {"status": "busy"}, {"last_error": 3}):
        with pytest.raises(ValidationError):
            managed.save_session_state(info.id, wrong)
    with pytest.raises(SessionNotFoundError):
        managed.save_session_state("12345678-1234-4234-8234-123456789abc", {})


def test_the_comparison_of_the_specification_is_the_table_of_profiles(
    managed_home: ManagedHome,
) -> None:
    lines = COMPARISON.read_text(encoding="utf-8").strip().splitlines()
    table = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]
    table = [row for row in table if not set(row[0]) <= {"-"}]
    managed = managed_home.managed
    for column, agent in enumerate(AGENTS, start=1):
        profile = managed.profile(agent)
        told = [getattr(profile, name) for name in profile.__struct_fields__ if name != "agent"]
        words = [{True: "Yes", False: "No"}.get(value, value) for value in told]
        assert words == [row[column] for row in table[1:]]
    assert managed.profile("codex").api_type == "CLI/subprocess"
    with pytest.raises(AgentNotFoundError):
        managed.profile("nobody")


@pytest.mark.parametrize("is_archived", [False, True])
@pytest.mark.parametrize("agent", ["droid", "claude"])
def test_a_running_session_can_be_stopped_from_another_client(
    managed_home: ManagedHome, agent: str, is_archived: bool
) -> None:
    errors: list[AmuxError] = []

    def work() -> None:
        try:
            managed_home.managed.create_session(agent, "HANG CHILD", cwd=str(managed_home.project))
        except AmuxError as error:
            errors.append(error)

    worker = Thread(target=work)
    worker.start()
    wait_for_process(managed_home)
    managed = managed_home.managed
    (info,) = managed.list_sessions()
    with pytest.raises(TurnInProgressError):
        managed.resume_session(info.id, "me too", strategy="always_new")
    with pytest.raises(AmuxError) as refused:
        managed.delete_session(info.id)
    assert refused.value.code == ErrorCode.INVALID_STATE_TRANSITION
    managed.terminate(info.id, archive=is_archived)
    worker.join(30)
    assert not worker.is_alive()
    assert len(errors) == 1
    assert errors[0].code in {ErrorCode.ABORTED, ErrorCode.AGENT_CRASH}
    status = SessionStatus.ARCHIVED if is_archived else SessionStatus.ENDED
    assert managed.get(info.id).status is status
    assert managed_home.living() == []
    assert managed.recover() == []


def test_a_stopped_session_is_archived_if_configured(managed_home: ManagedHome) -> None:
    managed_home.settings["global"] = {"archive_on_end": True}
    managed = managed_home.managed
    info = managed.create_session("droid", "hello", cwd=str(managed_home.project))
    managed.terminate(info.id)
    assert managed.list_sessions() == []
    assert [each.id for each in managed.list_sessions(status="archived")] == [info.id]


@pytest.mark.parametrize("agent", AGENTS)
def test_the_data_of_the_agents_are_never_touched(managed_home: ManagedHome, agent: str) -> None:
    managed_home.configure(opencode={"server_mode": False}, claude={"api": "cli"})
    managed_home.settings["global"] = {"max_sessions_per_agent": 1, "cleanup_action": "delete"}
    managed = managed_home.managed
    made = [
        managed.create_session(agent, f"number {n}", cwd=str(managed_home.project))
        for n in range(3)
    ]
    before = managed_home.native_files()
    assert before
    for info in made[:2]:
        managed.terminate(info.id)
    managed.cleanup()
    assert managed.delete_session(made[2].id) is True
    assert managed.delete_session(made[2].id) is False
    assert managed.list_sessions() == []
    assert managed_home.native_files() == before
    assert not (managed_home.base / agent / f"{made[2].id}.json").exists()


def test_over_the_limit_only_the_oldest_ended_sessions_are_archived(
    managed_home: ManagedHome,
) -> None:
    managed_home.settings["global"] = {"max_sessions_per_agent": 3}
    managed = managed_home.managed
    made = [managed.create_session("droid").id for _ in range(5)]
    assert len(managed.list_sessions()) == 5  # none has ended
    assert managed.cleanup().over_limit == ("droid",)
    for id in made[:3]:
        managed.terminate(id)
    left = [each.id for each in managed.list_sessions()]
    assert sorted(left) == sorted(made[2:])
    assert len(managed.list_sessions(status="archived")) == 2


@pytest.mark.parametrize(("first", "second"), [("claude", "droid"), ("droid", "opencode")])
def test_a_session_goes_on_with_another_agent(
    managed_home: ManagedHome, first: str, second: str
) -> None:
    managed_home.configure(opencode={"server_mode": False})
    managed = managed_home.managed
    info = managed.create_session(
        first, ["Why is it slow?", "And now?"], cwd=str(managed_home.project), model="x/y"
    )
    before = managed_home.native_files()
    other = managed.handoff(info.id, second)
    assert (other.agent, other.is_new, other.model) == (second, True, None)
    (prompt,) = managed.get(other.id).prompt_history
    lines = ("User: Why is it slow?", "Assistant: Answer to: Why is it slow?", "User: And now?")
    assert [line for line in lines if line not in prompt] == []
    assert managed_home.prompts(second) == [prompt]
    assert managed_home.calls(second)[-1]["cwd"] == str(managed_home.project)
    assert managed.get(other.id).metadata["handoff_from"] == info.id
    after = managed_home.native_files()
    assert {name: after[name] for name in before} == before
    with pytest.raises(ValidationError):
        managed.handoff(other.id, second)


def test_health_tells_what_is_installed(managed_home: ManagedHome) -> None:
    managed = managed_home.managed
    droid = managed.health("droid")
    assert (droid.is_healthy, droid.detail) == (True, "0.225.2")
    assert managed.health("claude").is_healthy  # the SDK
    assert not managed.health("gemini").is_healthy
    assert not managed.health("opencode").is_healthy  # no server


def test_any_other_agent_is_run_by_its_command(managed_home: ManagedHome) -> None:
    program = managed_home.bin / "codex"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        "if '--version' in sys.argv: print('codex-cli 0.166.0'); sys.exit()\n"
        "print(json.dumps({'type': 'thread.started', 'thread_id': '0199-codex'}))\n"
        "text = 'resume' if 'resume' in sys.argv else 'new'\n"
        "item = {'id': 'i', 'type': 'agent_message', 'text': text}\n"
        "print(json.dumps({'type': 'item.completed', 'item': item}))\n"
        "print(json.dumps({'type': 'turn.completed', 'usage': {'input_tokens': 1}}))\n"
    )
    program.chmod(0o755)
    managed = managed_home.managed
    info = managed.create_session("codex", "hello", cwd=str(managed_home.project))
    assert (info.text, info.unified_id) == ("new", "codex:0199-codex")
    assert managed.resume_session(info.id, "more").text == "resume"
    with pytest.raises(ValidationError, match="needs a prompt"):
        managed.resume_session(info.id)


def test_an_agent_that_prints_without_end_costs_little_time_and_memory(
    managed_home: ManagedHome,
) -> None:
    program = managed_home.bin / "hermes"
    program.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        "if '--version' in sys.argv: print('hermes 0.19.0'); sys.exit()\n"
        "for number in range(100_000): print(f'{number:049}')\n"
    )
    program.chmod(0o755)
    begun = time.process_time()
    info = managed_home.managed.create_session("hermes", "hello")
    assert time.process_time() - begun < 8
    assert info.text is not None
    assert info.text.startswith(f"{0:049}")
    assert len(info.text) <= 1 << 20


def test_a_daemon_of_an_agent_ends_with_its_session(managed_home: ManagedHome) -> None:
    program = managed_home.bin / "hermes"
    program.write_text(
        f"#!{sys.executable}\n"
        "import subprocess, sys\n"
        "if '--version' in sys.argv: print('hermes 0.19.0'); sys.exit()\n"
        "words = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "subprocess.Popen(words, start_new_session=True, stdout=2)\n"
        "print('done')\n"
    )
    program.chmod(0o755)
    managed = managed_home.managed
    info = managed.create_session("hermes", "hello")
    assert len(managed_home.living()) == 1
    managed.terminate(info.id)
    assert managed_home.living() == []


def test_the_client_of_the_demo_manages_nothing() -> None:
    from amux.client import create_demo_client

    with pytest.raises(ValidationError):
        _ = create_demo_client().managed
