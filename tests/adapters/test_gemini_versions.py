"""Tests Gemini CLI's documents, directories, old versions and damaged files."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from drawn import drawn
from gemini_chats import (
    OTHER,
    PROJECT,
    SESSION,
    Json,
    answers,
    at,
    get,
    head,
    open_home,
    prompts,
    reply,
    tool,
    user,
    write_document,
    write_log,
)
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from amux.adapters._base import SourceRef
from amux.adapters.gemini import ADAPTER
from amux.client import create_client
from amux.host import Host
from amux.testing import find_captures
from amux.testing.reading import read_source, sources_of

CAPTURES = Path(__file__).parent.parent / "captures"
TASK = "Your task is to do a deep look.\n<objective>\nfind it\n</objective>"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


# Documents


def test_a_compression_of_an_old_version_goes_on_in_a_second_document(home: Path) -> None:
    write_document(home, [user("u1", "First."), reply("g1", "One.")])
    second = [user("u2", "Second.", 60), reply("g2", "Two.", 61)]
    write_document(home, second, "20-01", startTime=at(60))
    session = get(home)
    assert prompts(session) == ["First.", "Second."]
    assert (session.raw["compactions"], session.turn_count, len(session.calls)) == (1, 2, 2)


def test_copies_of_an_upgraded_project_are_one_session(home: Path) -> None:
    first = write_document(home, [user("u1", "First."), reply("g1", "One.")], project="a" * 64)
    write_document(home, [user("u2", "Two.", 60)], "20-01", "a" * 64, startTime=at(60))
    shutil.copytree(first.parent.parent, first.parent.parent.parent / "webapp")
    lines = [head(), user("u1", "First."), reply("g1", "One."), user("u3", "Three.", 90)]
    write_log(home, [*lines, reply("g3", "3", 91)])
    session = get(home)
    assert sorted(prompts(session)) == ["First.", "Three.", "Two."]
    assert (session.raw["compactions"], len(session.calls)) == (1, 2)
    (listed,) = open_home(home).sessions.list("gemini")
    assert listed.message_count == len(session.messages)


def test_an_empty_notice_of_a_document_is_a_compression(home: Path) -> None:
    notice: Json = {"id": "i", "timestamp": at(3), "type": "info", "content": ""}
    error = {**notice, "id": "e", "type": "error", "content": "Quota exceeded"}
    write_document(home, [user("u", "Go."), reply("g", "Done."), notice, error])
    session = get(home)
    assert session.raw["compactions"] == 1
    assert [(m.role, m.content) for m in session.messages if m.synthetic] == [
        ("system", "Quota exceeded")
    ]


def test_a_task_of_a_sub_agent_inside_a_document_is_no_prompt(home: Path) -> None:
    call = tool("t", "codebase_investigator", args={"objective": "find it"})
    messages = [user("u", "Use a sub-agent."), user("v", TASK, 3), reply("g", "Found.", 4)]
    messages[-1]["toolCalls"] = [call]
    write_document(home, [*messages, reply("h", "It is there.", 5)])
    session = get(home)
    assert prompts(session) == ["Use a sub-agent."]
    assert session.turn_count == 1


def test_a_sub_agent_in_a_document_of_its_own_hangs_below_its_session(home: Path) -> None:
    write_document(home, [user("u", "Go."), reply("g", "Done.")])
    child = [user("v", "Look.", 61), reply("h", "Seen.", 62)]
    write_document(home, child, "20-01", kind="subagent", startTime=at(60))
    session = get(home)
    assert prompts(session) == ["Go."]
    assert [answers(one) for one in session.children] == [["Seen."]]
    assert session.cost is not None
    assert session.cost.input_tokens == 200
    assert session.cost.incomplete == ()
    assert len(open_home(home).sessions.list("gemini")) == 1


def test_a_document_that_begins_with_a_task_is_a_sub_agent_of_the_older_document(
    home: Path,
) -> None:
    write_document(home, [user("u", "Go."), reply("g", "Done.")])
    limit = "You have exceeded the maximum number of turns. You have one final chance"
    child = [user("v", TASK, 61), reply("h", "Seen.", 62), user("w", limit, 63)]
    write_document(home, child, "20-01", startTime=at(60))
    session = get(home)
    assert prompts(session) == ["Go."]
    assert "compactions" not in session.raw
    (agent,) = session.children
    assert (agent.kind, prompts(agent), answers(agent)) == ("subagent", [TASK], ["Seen."])
    assert [call.purpose for call in agent.calls] == ["subagent"]


def test_a_document_in_which_a_person_speaks_is_no_sub_agent(home: Path) -> None:
    write_document(home, [user("u", "Go."), reply("g", "Done.")])
    mixed = [user("v", TASK, 61), reply("h", "Seen.", 62), user("w", "Go on.", 63)]
    write_document(home, mixed, "20-01", startTime=at(60))
    session = get(home)
    assert prompts(session) == ["Go.", "Go on."]
    assert not session.children


def test_a_task_without_an_older_document_is_a_session(home: Path) -> None:
    write_document(home, [user("v", TASK), reply("h", "Seen.")])
    session = get(home)
    assert (session.kind, answers(session)) == ("session", ["Seen."])


def test_copies_of_a_sub_agents_document_are_counted_once(home: Path) -> None:
    path = write_document(home, [user("u", "Go."), reply("g", "Done.")], project="a" * 64)
    child = {**head("k3x9fq", kind="subagent"), "messages": [user("v", TASK), reply("h", "Seen.")]}
    folder = path.parent / SESSION
    folder.mkdir()
    (folder / "k3x9fq.json").write_text(json.dumps(child))
    lines = [head("k3x9fq", kind="subagent"), user("v", TASK), reply("h", "Seen.")]
    write_log(home, lines, f"{SESSION}/k3x9fq.jsonl", "a" * 64)
    shutil.copytree(path.parent.parent, path.parent.parent.parent / "webapp")
    session = get(home)
    assert [(one.session_id, len(one.calls)) for one in session.children] == [("k3x9fq", 1)]
    assert session.cost is not None
    assert session.cost.input_tokens == 200
    assert open_home(home).sessions.total_cost(agent="gemini").input_tokens == 200


def test_a_sub_agent_of_a_log_hangs_below_its_session(home: Path) -> None:
    write_log(home, [head(), user("u", "Go."), reply("g", "Done.")])
    about = head("child", kind="subagent", directories=[PROJECT])
    child = [about, user("v", "Look."), reply("h", "Seen.")]
    write_log(home, child, f"{SESSION}/child.jsonl")
    session = get(home)
    assert [(one.session_id, one.cwd) for one in session.children] == [("child", PROJECT)]
    assert session.children[0].title == "Look."


def test_a_prompt_is_what_was_typed_not_what_it_became(home: Path) -> None:
    referred = ["Explain @a.py", "\n--- Content from referenced files ---", "\nx = 1"]
    content = [{"text": text} for text in referred]
    shown = user("u1", "ignored", displayContent=[{"text": "Explain @a.py please"}])
    write_document(home, [{**user("u0", ""), "content": content}, shown])
    session = get(home)
    assert prompts(session) == ["Explain @a.py", "Explain @a.py please"]
    assert session.title == "Explain @a.py"


def test_a_command_is_a_title_only_where_there_is_nothing_else(home: Path) -> None:
    write_log(home, [head(), user("u", "/usr/bin/env fails")])
    assert get(home).title == "/usr/bin/env fails"
    write_log(home, [head(), user("u", "/usr/bin/env fails"), user("v", "Why is that?")])
    assert get(home).title == "Why is that?"


def test_of_several_commands_the_first_that_was_answered_is_the_title(home: Path) -> None:
    deploy = user("v", "Run the script.", displayContent=[{"text": "/deploy staging"}])
    lines = [head(), user("u", "/explain"), deploy, reply("g", "Done."), user("w", "/test")]
    write_log(home, [*lines, reply("h", "Fine.")])
    session = get(home)
    assert (session.title, session.turn_count) == ("/deploy staging", 2)
    write_log(home, [head(), user("u", "/auth"), reply("g", "Done.")])
    assert get(home).title == ""


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        ({"output": "Output: x\nExit Code: 1\nProcess Group PGID: 9"}, True),
        ({"output": "Output: x\nError: (none)\nExit Code: 0\nSignal: 0"}, False),
        ({"output": "Output: Exit Code: 1\nand more\nProcess Group PGID: 9"}, False),
        ({"error": "no such file"}, True),
    ],
)
def test_a_command_fails_by_its_exit_code(result: Json, failed: bool, home: Path) -> None:
    response = {"functionResponse": {"id": "t", "name": "run_shell_command", "response": result}}
    call = tool("t", "run_shell_command", output=None, result=[response])
    write_log(home, [head(), user("u", "Run."), reply("g", "", toolCalls=[call])])
    assert get(home).messages[1].tool_calls[0].is_error is failed


def test_a_refused_report_of_a_sub_agent_failed(home: Path) -> None:
    response = {
        "functionResponse": {"id": "t", "name": "complete_task", "response": {"error": "x"}}
    }
    call = tool("t", "complete_task", output=None, result=[response], status="error")
    write_log(home, [head(), user("u", "Run."), reply("g", "", toolCalls=[call])])
    (found,) = get(home).messages[1].tool_calls
    assert (found.output, found.is_error) == ({"error": "x"}, True)


# Places


@pytest.mark.parametrize("known_by", ["note", "list", "hash"])
def test_the_directory_comes_from_the_note_the_list_or_the_hash(known_by: str, home: Path) -> None:
    hashed = sha256(PROJECT.encode()).hexdigest()
    project = hashed if known_by == "hash" else "webapp"
    path = write_log(home, [head(projectHash=hashed), user("u", "Go.")], project=project)
    if known_by == "note":
        (path.parent.parent / ".project_root").write_text(PROJECT)
    else:
        listed = json.dumps({"projects": {"/else": "else", PROJECT: "webapp"}})
        (home / ".gemini" / "projects.json").write_text(listed)
    assert get(home).cwd == PROJECT


def hashed_chat(home: Path, directory: str, *tools: Json) -> None:
    digest = sha256(directory.encode()).hexdigest()
    messages = [user("u", "Go."), reply("g", "Done.", toolCalls=list(tools))]
    write_document(home, messages, project=digest, projectHash=digest)


@pytest.mark.parametrize(
    ("directory", "path", "shown"),
    [
        (r"C:\Users\dev\webapp", r"C:\Users\dev\webapp\src\a.py", "C:/Users/dev/webapp"),
        ("/home/dev/ünï", "/home/dev/ünï/a.py", "/home/dev/ünï"),
    ],
)
def test_a_path_in_a_tool_call_proves_the_directory(
    directory: str, path: str, shown: str, home: Path
) -> None:
    hashed_chat(home, directory, tool("t", args={"file_path": path}))
    assert get(home).cwd == shown


def test_the_index_notices_that_another_chat_of_the_folder_proves_the_directory(
    home: Path, tmp_path: Path
) -> None:
    digest = sha256(PROJECT.encode()).hexdigest()
    write_document(home, [user("u", "Go.")], project=digest, projectHash=digest)
    other = home / ".gemini" / "tmp" / digest / "chats" / "session-2026-11-15T20-05-5eaf00d5.json"
    client = create_client(home=home, env={"AMUX_CACHE_DIR": str(tmp_path / "cache")})
    directories: list[set[str | None]] = []
    for named in ("/home/dev/else/a.py", f"{PROJECT}/a.py"):
        call = tool("t", args={"file_path": named})
        document = head("5eaf00d5", projectHash=digest)
        document["messages"] = [user("v", "Look."), reply("h", "Done.", toolCalls=[call])]
        other.write_text(json.dumps(document))
        client.index.update()
        directories.append({each.cwd for each in client.sessions.list("gemini")})
    assert directories == [{None}, {PROJECT}]


def test_the_directory_around_the_store_is_proved_by_its_hash(home: Path) -> None:
    hashed_chat(home, str(home))
    assert get(home).cwd == str(home)


def test_a_directory_without_a_proof_is_unknown(home: Path) -> None:
    hashed_chat(home, "/home/dev/gone", tool("t", args={"file_path": "/home/dev/else/a.py"}))
    (home / ".gemini" / "trustedFolders.json").write_text('{"/home/dev/webapp": "TRUST_FOLDER"}')
    (home / ".gemini" / "projects.json").write_text("[")
    assert get(home).cwd is None


def test_old_captures_have_the_directory_that_a_saved_chat_or_a_tool_call_names(
    tmp_path: Path,
) -> None:
    cwd = "/home/dev/src/webapp-gemini"
    for version, session_id in (("0.1.22", "37e1b9e4"), ("0.15.4", "2c3b37e6")):
        (capture,) = (one for one in find_captures(CAPTURES, "gemini") if one.version == version)
        client = open_home(capture.copy_to(tmp_path / version))
        assert client.sessions.get("gemini", session_id).cwd == cwd


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_the_store_is_in_the_home_the_variable_names(platform: str, tmp_path: Path) -> None:
    env = {"GEMINI_CLI_HOME": str(tmp_path / "g")}
    assert ADAPTER.roots(Host(tmp_path, platform=platform)) == [tmp_path / ".gemini"]
    moved = ADAPTER.roots(Host(tmp_path, env=env, platform=platform))
    assert moved == [tmp_path / "g" / ".gemini"]


def test_checkpoints_logs_and_shadow_copies_are_no_sessions(home: Path) -> None:
    path = write_log(home, [head(), user("u", "Go.")])
    project = path.parent.parent
    entry = {"sessionId": "gone", "messageId": 0, "type": "user", "message": "Old."}
    (project / "logs.json").write_text(json.dumps([entry]))
    (project / "checkpoint-x.json").write_text(json.dumps([{"role": "user", "parts": []}]))
    assert [s.path for s in sources_of(ADAPTER, home)] == [path]


def test_a_list_of_projects_whose_writer_was_stopped_is_known(home: Path) -> None:
    write_log(home, [head(), user("u", "Go.")])
    (home / ".gemini" / "projects.json.5e1d.tmp").write_text("{")
    (report,) = open_home(home).doctor("gemini")
    (found,) = [file for file in report.files if file.path.endswith(".tmp")]
    assert (found.status, found.what) == ("bystander", "names of the projects, not completed")


# Versions without chats


def write_old_home(home: Path, *, saved: bool = True) -> None:
    project = home / ".gemini" / "tmp" / sha256(PROJECT.encode()).hexdigest()
    project.mkdir(parents=True)
    typed = ["First.", "/chat save tag", "/compress", "Second.", "/quit"]
    entries = [
        {"sessionId": SESSION, "messageId": n, "type": "user", "message": m, "timestamp": at(n)}
        for n, m in enumerate(typed)
    ]
    entries.append({"sessionId": OTHER, "messageId": 0, "type": "user", "message": "/quit"})
    (project / "logs.json").write_text(json.dumps(entries))
    call: Json = {"functionCall": {"name": "ls", "args": {}}}
    result = {"functionResponse": {"id": "x", "name": "ls", "response": {"output": "a"}}}
    history: list[Json] = [
        {"role": "user", "parts": [{"text": "This is the Gemini CLI. We are setting up the context for our chat.\n"}]},  # noqa: E501
        {"role": "model", "parts": [{"text": "Got it. Thanks for the context!"}]},
        {"role": "user", "parts": [{"text": "First."}]},
        {"role": "model", "parts": [{"text": "One."}, call]},
        {"role": "user", "parts": [result]},
    ]  # fmt: skip
    if saved:
        (project / "checkpoint-tag.json").write_text(json.dumps({"history": history}))


def test_prompts_of_a_version_without_chats_make_a_session(home: Path) -> None:
    write_old_home(home, saved=False)
    session = get(home)
    assert prompts(session) == ["First.", "Second."]
    assert session.cost is None
    assert session.raw["compactions"] == 1
    assert len(open_home(home).sessions.list("gemini")) == 1


def test_a_saved_chat_gives_the_answers_up_to_the_save(home: Path) -> None:
    write_old_home(home)
    session = get(home)
    assert prompts(session) == ["First.", "Second."]
    assert answers(session) == ["One."]
    assert session.title == "First."
    assert session.messages[3].tool_calls[0].output == {"output": "a"}
    assert not session.problems


@pytest.mark.parametrize(
    ("rule", "days"),
    [
        ({}, 30),
        ({"maxAge": "2w"}, 14),
        ({"maxAge": "12h"}, 0.5),
        ({"maxAge": "soon"}, 30),
        ({"enabled": False}, None),
    ],
)
def test_the_agent_deletes_chats_as_its_settings_say(
    rule: Json, days: float | None, tmp_path: Path
) -> None:
    settings_file = tmp_path / "settings.json"
    settings_file.write_text(json.dumps({"general": {"sessionRetention": rule}}))
    retention = ADAPTER.retention(tmp_path)
    assert (retention and retention.days) == days


# Damage


def test_a_torn_document_is_a_problem_and_hides_no_neighbour(home: Path) -> None:
    whole = write_document(home, [user("u", "Go."), reply("g", "Done.")])
    torn = whole.with_name("session-2026-11-15T20-09-deadbeef.json")
    torn.write_bytes(whole.read_bytes()[:-20])
    report = open_home(home).sessions.list("gemini")
    assert [one.title for one in report] == ["Go."]
    (source,) = [s for s in sources_of(ADAPTER, home) if s.path == torn]
    assert [p.code for p in read_source(ADAPTER, source).problems] == ["bad-line", "unknown-format"]


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
FIELDS = sorted({*user("u", "x"), *reply("g", "x"), *head(), "$set", "$rewindTo", "toolCalls"})


@drawn(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(field=st.sampled_from(FIELDS), value=JSON_VALUES, as_document=st.booleans())
def test_any_value_in_any_field_affects_no_other_record(
    field: str, value: Any, as_document: bool, tmp_path: Path
) -> None:
    odd = {**reply("odd", "Odd.", toolCalls=[tool("t")]), field: value}
    messages: list[Json] = [user("u", "Go."), odd, reply("g", "Done.", 9)]
    shutil.rmtree(tmp_path / "odd", ignore_errors=True)
    if as_document:
        path = write_document(tmp_path / "odd", messages)
    else:
        path = write_log(tmp_path / "odd", [head(), *messages])
    source = SourceRef(agent="gemini", path=path, root=tmp_path)
    contents = [message.content for message in read_source(ADAPTER, source).messages]
    assert "Go." in contents
    assert "Done." in contents
    facts = read_source(ADAPTER, source, "facts").facts
    assert facts == read_source(ADAPTER, source).facts


@pytest.mark.parametrize(
    ("action", "version", "expected"),
    [
        ("new", None, ("gemini", "--prompt=Go.")),
        ("resume", None, ("gemini", "--resume", "x", "--prompt=Go.")),
        ("resume", "0.15.4", None),
        ("fork", None, None),
    ],
)
def test_a_command_resumes_where_the_version_can(
    action: Any, version: str | None, expected: tuple[str, ...] | None
) -> None:
    command = ADAPTER.command(action, session_id="x", prompt="Go.", version=version)
    assert (command and command.argv) == expected


def test_every_capture_says_the_same_when_its_times_are_lost(tmp_path: Path) -> None:
    capture = find_captures(CAPTURES, "gemini")[-1]
    home = capture.copy_to(tmp_path)
    before = open_home(home).sessions.list("gemini", limit=None)
    for source in sources_of(ADAPTER, home):
        source.path.touch()
    assert open_home(home).sessions.list("gemini", limit=None) == before
