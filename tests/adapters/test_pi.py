"""Tests Pi on every capture, and cases that no capture contains."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pi_logs import (
    Json,
    entry,
    header,
    host,
    read_only,
    reply,
    texts,
    usage,
    user,
    without_ids,
    write,
)

from amux.adapters.pi import ADAPTER
from amux.client import Client, create_client
from amux.model.trace import count_turns
from amux.testing import AdapterSuite, find_captures
from amux.testing.reading import read_source

CAPTURES = Path(__file__).parent.parent / "captures"
SESSIONS = Path(".pi/agent/sessions")
FOLDER = SESSIONS / "--home-dev-app--"
NAME = "2026-11-15T20-00-00-000Z_s1.jsonl"


class TestPi(AdapterSuite):
    adapter = ADAPTER
    captures = find_captures(CAPTURES, "pi")
    relocation = {
        "PI_CODING_AGENT_DIR": "elsewhere",
        "CODING_AGENT_DIR": "elsewhere",
        "PI_CODING_AGENT_SESSION_DIR": "elsewhere",
    }


def client_of(home: Path) -> Client:
    client = create_client(home=home)
    client.adapters.register(ADAPTER)
    return client


def log(home: Path, *lines: Any, name: str = NAME) -> Path:
    return write(home / FOLDER / name, lines)


def tool_call(call_id: str) -> Json:
    return {"type": "toolCall", "id": call_id, "name": "bash", "arguments": {"command": "ls"}}


TWO_BRANCHES = (
    header(cwd="/home/dev/app"),
    user("u1", None, 1, "Begin"),
    reply("a1", "u1", 2),
    user("u2", "a1", 3, "First way"),
    reply("a2", "u2", 4, "first"),
    user("u3", "a1", 5, "Second way"),
    reply("a3", "u3", 6, "second"),
)


# the tree


def test_the_way_to_the_last_line_is_the_current_branch(tmp_path: Path) -> None:
    log(tmp_path, *TWO_BRANCHES)
    assert texts(read_only(ADAPTER, tmp_path)) == ["Begin", "Yes.", "Second way", "second"]


def test_a_label_on_an_abandoned_branch_makes_it_current_as_in_pi_itself(tmp_path: Path) -> None:
    log(tmp_path, *TWO_BRANCHES, entry("l1", "a2", 7, "label", targetId="a1", label="here"))
    reading = read_only(ADAPTER, tmp_path)
    assert texts(reading) == ["Begin", "Yes.", "First way", "first"]
    assert reading.facts[0].raw["labels"] == {"a1": "here"}


def test_usage_counts_on_every_branch_and_turns_on_the_current_one(tmp_path: Path) -> None:
    log(tmp_path, *TWO_BRANCHES)
    [facts] = read_only(ADAPTER, tmp_path).facts
    assert [call.tokens.input for call in facts.calls] == [102, 104, 106]
    assert count_turns(facts.trace.kinds) == 2


def test_the_whole_tree_is_reachable_in_raw(tmp_path: Path) -> None:
    log(tmp_path, *TWO_BRANCHES)
    tree = client_of(tmp_path).sessions.get("pi", "s1").raw["tree"]
    assert tree["leaf"] == "a3"
    assert tree["leaves"] == ["a2", "a3"]
    assert {"id": "u3", "parentId": "a1"} in tree["entries"]
    assert {"id": "u1", "parentId": None} in tree["entries"]


def test_branches_that_are_not_shown_are_in_the_tree_as_they_stand(tmp_path: Path) -> None:
    log(tmp_path, *TWO_BRANCHES)
    session = client_of(tmp_path).sessions.get("pi", "s1")
    shown = {message.id for message in session.messages}
    entries = {entry["id"]: entry for entry in session.raw["tree"]["entries"]}
    written = {line["id"]: line for line in TWO_BRANCHES[1:]}
    assert {name for name, entry in entries.items() if "record" not in entry} == shown
    for name in written.keys() - shown:
        assert entries[name]["record"] == written[name]


def test_the_records_of_a_tree_have_bounds(tmp_path: Path) -> None:
    many = (user(f"x{n}", "u1", 9, "y" * 20_000) for n in range(40))
    log(tmp_path, *TWO_BRANCHES[:2], *many, user("u9", "u1", 9, "the end"))
    entries = client_of(tmp_path).sessions.get("pi", "s1").raw["tree"]["entries"]
    records = [entry["record"] for entry in entries if "record" in entry]
    assert 0 < len(records) < 40
    assert len(json.dumps(records)) < 300_000
    assert all("y" * 10_000 in record["truncated"] for record in records)


def test_a_linear_session_needs_no_tree_in_raw(tmp_path: Path) -> None:
    log(tmp_path, *TWO_BRANCHES[:5])
    assert "tree" not in client_of(tmp_path).sessions.get("pi", "s1").raw


def test_a_missing_parent_record_affects_no_other_record(tmp_path: Path) -> None:
    log(tmp_path, *TWO_BRANCHES[:2], "not a record", *TWO_BRANCHES[3:5])
    reading = read_only(ADAPTER, tmp_path)
    assert texts(reading) == ["Begin", "First way", "first"]
    assert [problem.code for problem in reading.problems] == ["bad-record"]


def test_entries_that_are_their_own_ancestors_end_the_branch(tmp_path: Path) -> None:
    log(tmp_path, header(), user("a", "b", 1, "one"), user("b", "a", 2, "two"))
    assert texts(read_only(ADAPTER, tmp_path)) == ["one", "two"]


def test_two_entries_of_one_id_are_two_messages(tmp_path: Path) -> None:
    log(tmp_path, header(), user("a", None, 1, "one"), {**user("a", None, 2, "two"), "parentId": 5})
    reading = read_only(ADAPTER, tmp_path)
    assert texts(reading) == ["one", "two"]
    assert [message.id for message in reading.messages] == ["a", "line-3"]


# the specification's layout: a folder is a session


def spec_line(entry_id: str, parent: str | None, second: int, role: str, said: str) -> Json:
    stamp = f"2026-01-01T00:00:{second:02}Z"
    return {"id": entry_id, "parentId": parent, "role": role, "content": said, "timestamp": stamp}


SPECIFIED = (
    spec_line("1", None, 1, "user", "Root question"),
    spec_line("2", "1", 2, "assistant", "Root answer"),
    spec_line("5", "2", 8, "user", "Later question"),
    spec_line("6", "5", 9, "assistant", "Later answer"),
    spec_line("3", "2", 3, "user", "Earlier question"),
    spec_line("4", "3", 4, "assistant", "Earlier answer"),
)


def test_a_folder_is_a_session_and_the_highest_time_chooses_the_branch(tmp_path: Path) -> None:
    write(tmp_path / SESSIONS / "proj-1/messages.jsonl", SPECIFIED)
    session = client_of(tmp_path).sessions.get("pi", "proj-1")
    assert session.title == "Root question"
    assert [m.content for m in session.messages][2:] == ["Later question", "Later answer"]
    left = {"id": "4", "parentId": "3", "record": SPECIFIED[5]}
    assert left in session.raw["tree"]["entries"]
    assert session.created_at.year == 2026


def test_several_files_of_a_folder_are_one_tree(tmp_path: Path) -> None:
    folder = tmp_path / SESSIONS / "proj-1"
    write(folder / "b.jsonl", SPECIFIED[:2])
    write(folder / "a.jsonl", [*SPECIFIED[:1], *SPECIFIED[2:4]])
    reading = read_only(ADAPTER, tmp_path)
    said = ["Root question", "Root answer", "Later question", "Later answer"]
    assert texts(reading) == said
    [summary] = client_of(tmp_path).sessions.list("pi")
    assert (summary.session_id, summary.message_count, summary.turn_count) == ("proj-1", 4, 2)


def test_a_folder_within_a_folder_gives_an_id_with_a_slash(tmp_path: Path) -> None:
    write(tmp_path / SESSIONS / "proj-xyz/branch-main/x.jsonl", SPECIFIED)
    client = client_of(tmp_path)
    assert client.sessions.get("pi", "proj-xyz/branch-main").unified_id == "pi:proj-xyz/branch-main"


def test_the_folder_names_the_session_whatever_its_header_says(tmp_path: Path) -> None:
    write(tmp_path / SESSIONS / "proj-1/log.jsonl", [header("inner"), *SPECIFIED])
    client = client_of(tmp_path)
    assert client.sessions.get("pi", "proj-1").session_id == "proj-1"
    assert client.sessions.get("pi", "inner").session_id == "proj-1"


def test_a_folder_with_one_log_named_by_its_time_is_a_name_for_it(tmp_path: Path) -> None:
    write(tmp_path / SESSIONS / "proj-1" / NAME, TWO_BRANCHES)
    assert client_of(tmp_path).sessions.get("pi", "proj-1").session_id == "s1"


def test_token_counts_of_a_bare_message_are_its_usage(tmp_path: Path) -> None:
    answer = {**SPECIFIED[1], "model": "m", "usage": {"inputTokens": 7, "outputTokens": 3}}
    write(tmp_path / SESSIONS / "proj-1/log.jsonl", [SPECIFIED[0], answer])
    session = client_of(tmp_path).sessions.get("pi", "proj-1")
    assert session.cost is not None
    assert (session.cost.input_tokens, session.cost.output_tokens) == (7, 3)
    assert session.messages[1].token_usage is not None


# version 1


def test_a_version_1_log_is_a_list(tmp_path: Path) -> None:
    lines = without_ids(TWO_BRANCHES[:5])
    lines[0].pop("version")
    log(tmp_path, *lines)
    reading = read_only(ADAPTER, tmp_path)
    assert texts(reading) == ["Begin", "Yes.", "First way", "first"]
    assert [m.id for m in reading.messages] == ["line-2", "line-3", "line-4", "line-5"]


@pytest.mark.parametrize("parent_is_rewritten", [False, True])
def test_a_fork_of_a_version_1_log_is_counted_once(
    tmp_path: Path, *, parent_is_rewritten: bool
) -> None:
    old = without_ids(TWO_BRANCHES[:5])
    log(tmp_path, *(TWO_BRANCHES[:5] if parent_is_rewritten else old))
    fork = {**old[0], "id": "s2", "timestamp": "2026-11-15T21:00:00Z", "branchedFrom": f"/x/{NAME}"}
    log(tmp_path, fork, *old[1:], name="2026-11-15T21-00-00-000Z_s2.jsonl")
    client = client_of(tmp_path)
    assert client.sessions.get("pi", "s2").forked_from == "s1"
    assert client.sessions.get("pi", "s1").calls != ()
    assert client.sessions.get("pi", "s2").calls == ()
    assert client.sessions.total_cost(agent="pi").input_tokens == 206


def test_a_failed_tool_of_version_1_is_told_by_its_text(tmp_path: Path) -> None:
    def result(call_id: str, tool: str, said: str) -> Json:
        message = {"role": "toolResult", "toolCallId": call_id, "toolName": tool}
        return {"type": "message", "message": {**message, "content": said, "isError": False}}

    calls = [tool_call(str(number)) for number in range(3)]
    log(
        tmp_path,
        {"type": "session", "id": "s1", "timestamp": "2026-11-15T20:00:00Z"},
        reply("x", None, 1, content=calls),
        result("0", "bash", "boom\n\nCommand exited with code 1"),
        result("1", "read", "Error: File not found: /x"),
        result("2", "bash", "fine"),
    )
    [message] = [m for m in client_of(tmp_path).sessions.get("pi", "s1").messages if m.tool_calls]
    assert [call.is_error for call in message.tool_calls] == [True, True, False]


# ids and lineage


def test_the_header_names_the_session_and_the_file_name_finds_it(tmp_path: Path) -> None:
    log(tmp_path, header("real-id"), user("u1", None, 1, "Hi"), reply("a1", "u1", 2))
    parent = {"parentSession": f"C:\\Users\\dev\\{NAME}"}
    late = {"timestamp": "2026-11-15T21:00:00Z"}
    copied = [user("u1", None, 1, "Hi"), reply("a1", "u1", 2)]
    log(tmp_path, {**header("fork", **parent), **late}, *copied, name="other.jsonl")
    client = client_of(tmp_path)
    assert client.sessions.get("pi", "s1").session_id == "real-id"
    assert client.sessions.get("pi", "fork").forked_from == "real-id"
    assert client.sessions.get("pi", "fork").calls == ()


def test_copies_of_a_deleted_session_are_counted_once_in_lists_and_alone(tmp_path: Path) -> None:
    copied = [user("u1", None, 1, "Hi"), reply("a1", "u1", 2)]
    for number in (2, 3):
        born = {"timestamp": f"2026-11-15T2{number}:00:00Z", "parentSession": "/gone/x_gone.jsonl"}
        lines = [{**header(f"s{number}"), **born}, *copied]
        log(tmp_path, *lines, name=f"2026-11-15T2{number}-00-00-000Z_s{number}.jsonl")
    client = client_of(tmp_path)
    assert client.sessions.total_cost(agent="pi").input_tokens == 102
    alone = [len(client.sessions.get("pi", name).calls) for name in ("s2", "s3")]
    listed = {s.session_id: s.cost for s in client.sessions.list("pi")}
    assert sorted(alone) == [0, 1]
    assert listed["s2"] == client.sessions.get("pi", "s2").cost
    assert listed["s3"] == client.sessions.get("pi", "s3").cost


# what is counted


def gaps_of(home: Path) -> set[str]:
    [facts] = read_only(ADAPTER, home).facts
    return {*facts.gaps, *(gap for call in facts.calls for gap in call.gaps)}


def test_a_log_that_ends_with_a_question_was_interrupted(tmp_path: Path) -> None:
    log(tmp_path, *TWO_BRANCHES[:4])
    assert gaps_of(tmp_path) == {"call-interrupted"}


def test_a_question_after_an_unanswered_one_tells_of_an_interrupted_call(tmp_path: Path) -> None:
    log(tmp_path, *TWO_BRANCHES[:4], user("u9", "u2", 8, "Still there?"), reply("a9", "u9", 9))
    assert gaps_of(tmp_path) == {"call-interrupted"}


def test_a_tool_result_without_a_further_answer_was_interrupted(tmp_path: Path) -> None:
    call = [tool_call("t1")]
    result = {"role": "toolResult", "toolCallId": "t1", "toolName": "bash", "content": "x"}
    lines = [header(), user("u1", None, 1, "Go"), reply("a1", "u1", 2, content=call)]
    log(tmp_path, *lines, entry("r1", "a1", 3, "message", message=result))
    assert gaps_of(tmp_path) == {"call-interrupted"}


def test_a_copied_question_says_nothing_of_this_session(tmp_path: Path) -> None:
    fork = header(parentSession="/x/2026-11-15T19-00-00-000Z_s0.jsonl")
    log(tmp_path, {**fork, "timestamp": "2026-11-15T22:00:00Z"}, user("u1", None, 1, "Hi"))
    assert gaps_of(tmp_path) == set()


@pytest.mark.parametrize(
    ("stop", "figures", "gaps"),
    [
        ("aborted", usage(9), {"call-interrupted"}),
        (
            "aborted",
            usage(0) | {"output": 0, "cacheRead": 0, "cacheWrite": 0},
            {"call-interrupted"},
        ),
        ("stop", None, {"usage-not-recorded"}),
        ("stop", usage(9), ()),
    ],
)
def test_an_answer_is_a_call_or_a_gap(
    tmp_path: Path, stop: str, figures: Json | None, gaps: Iterable[str]
) -> None:
    log(
        tmp_path,
        header(),
        user("u1", None, 1, "Hi"),
        reply("a1", "u1", 2, stopReason=stop, usage=figures),
    )
    assert gaps_of(tmp_path) == set(gaps)


def test_a_failed_call_is_a_notice_and_costs_nothing(tmp_path: Path) -> None:
    nothing: Json = {"input": 0, "output": 0, "cost": {"total": 0}}
    failed: Json = {"content": [], "stopReason": "error", "errorMessage": "529", "usage": nothing}
    log(tmp_path, header(), user("u1", None, 1, "Hi"), reply("a1", "u1", 2, "", **failed))
    session = client_of(tmp_path).sessions.get("pi", "s1")
    assert (session.messages[1].content, session.messages[1].synthetic) == ("529", True)
    assert session.turn_count == 0
    assert session.cost is not None
    assert (session.cost.total_usd, session.cost.source) == (0.0, "native")
    assert session.cost.incomplete == ()


def test_a_price_of_zero_is_a_price_pi_did_not_know(tmp_path: Path) -> None:
    log(tmp_path, header(), user("u1", None, 1, "Hi"), reply("a1", "u1", 2, usage=usage(9, 0)))
    [facts] = read_only(ADAPTER, tmp_path).facts
    assert [call.native_nusd for call in facts.calls] == [None]


def test_summaries_helpers_and_tools_are_calls_where_their_usage_is_recorded(
    tmp_path: Path,
) -> None:
    result = {"role": "toolResult", "toolCallId": "t1", "content": "x", "usage": usage(4)}
    call = [tool_call("t1")]
    log(
        tmp_path,
        header(),
        user("u1", None, 1, "Hi"),
        reply("a1", "u1", 2, content=call),
        entry("r1", "a1", 3, "message", message=result),
        entry("c1", "r1", 4, "compaction", summary="So far.", usage=usage(5)),
        entry("b1", "c1", 5, "branch_summary", summary="Elsewhere.", usage=usage(6)),
        entry("w1", "b1", 6, "usage", kind="cache_warm", model="m", usage=usage(7)),
        reply("a2", "w1", 7),
    )
    reading = read_only(ADAPTER, tmp_path)
    [facts] = reading.facts
    assert [(call.tokens.input, call.purpose) for call in facts.calls] == [
        (102, "main"),
        (4, "auxiliary"),
        (5, "compaction"),
        (6, "compaction"),
        (7, "auxiliary"),
        (107, "main"),
    ]
    assert facts.gaps == ()
    assert facts.compactions == 1
    assert [(m.role, m.compaction) for m in reading.messages if m.content == "So far."] == [
        ("system", True)
    ]


def test_summaries_of_older_versions_are_gaps(tmp_path: Path) -> None:
    log(
        tmp_path,
        *TWO_BRANCHES[:5],
        entry("c1", "a2", 7, "compaction", summary="So far."),
        entry("b1", "c1", 8, "branch_summary", summary="Elsewhere."),
    )
    assert gaps_of(tmp_path) == {"compaction-call-not-recorded", "helper-call-not-recorded"}


def test_equal_calls_of_a_hand_made_log_are_two_calls(tmp_path: Path) -> None:
    same = {"timestamp": "2026-11-15T20:00:00Z"}
    lines = [{**reply(name, None, 1, timestamp=1), **same} for name in ("a1", "a2")]
    log(tmp_path, header(), *lines)
    [facts] = read_only(ADAPTER, tmp_path).facts
    assert len({call.key for call in facts.calls}) == 2


# messages


def test_texts_no_person_typed_are_neither_prompt_nor_title(tmp_path: Path) -> None:
    shell = {"role": "bashExecution", "command": "ls", "output": "a\n", "exitCode": 0}
    log(
        tmp_path,
        header(),
        entry(
            "s",
            None,
            1,
            "message",
            message={"role": "system", "content": "", "sections": {"a": "b"}},
        ),
        entry("c", "s", 2, "custom_message", content="from an extension"),
        entry("h", "c", 3, "message", message={"role": "hookMessage", "content": "from a hook"}),
        entry("b", "h", 4, "message", message=shell),
        user("u1", "b", 5, "typed"),
        reply("a1", "u1", 6),
    )
    session = client_of(tmp_path).sessions.get("pi", "s1")
    assert (session.title, session.turn_count) == ("typed", 1)
    assert [(m.role, m.content) for m in session.messages if m.synthetic] == [
        ("system", "b"),
        ("user", "from an extension"),
        ("user", "from a hook"),
        ("user", "!ls\na"),
    ]


@pytest.mark.parametrize(
    ("names", "title"), [(["One", "Two"], "Two"), (["One", ""], "Begin"), ([], "Begin")]
)
def test_the_last_name_wins_and_an_empty_one_clears_it(
    tmp_path: Path, names: list[str], title: str
) -> None:
    infos = [entry(f"n{i}", "a2", 9, "session_info", name=name) for i, name in enumerate(names)]
    log(tmp_path, *TWO_BRANCHES[:5], *infos)
    assert client_of(tmp_path).sessions.get("pi", "s1").title == title


def test_a_pasted_image_is_a_data_url(tmp_path: Path) -> None:
    good = {"type": "image", "mimeType": "image/png", "data": "aGk="}
    bad = {"type": "image", "mimeType": 'x" onerror="', "data": "aGk="}
    prompt = user("u1", None, 1, "Look", content=[good, bad, {"type": "text", "text": "Look"}])
    log(tmp_path, header(), prompt, reply("a1", "u1", 2))
    assert read_only(ADAPTER, tmp_path).messages[0].images == ("data:image/png;base64,aGk=",)


def test_a_version_newer_than_known_is_a_problem_and_no_session(tmp_path: Path) -> None:
    log(tmp_path, {**header(), "version": 9}, user("u1", None, 1, "Hi"), reply("a1", "u1", 2))
    reading = read_only(ADAPTER, tmp_path)
    assert (reading.facts, reading.messages) == ([], [])
    assert [problem.code for problem in reading.problems] == ["unknown-format"]


def test_a_log_of_something_else_is_a_problem_and_no_session(tmp_path: Path) -> None:
    log(tmp_path, {"event": 1}, [1, 2], {"event": 2})
    reading = read_only(ADAPTER, tmp_path)
    assert reading.facts == []
    assert {problem.code for problem in reading.problems} == {"bad-record", "unknown-format"}


# places


def found(home: Path, **env: str) -> list[str]:
    roots = [root for root in ADAPTER.roots(host(home, **env)) if root.is_dir()]
    return sorted(source.session_id or "" for root in roots for source in ADAPTER.discover(root))


def test_a_session_folder_of_its_own_holds_the_logs_directly(tmp_path: Path) -> None:
    write(tmp_path / "mine" / NAME, TWO_BRANCHES)
    assert found(tmp_path, PI_CODING_AGENT_SESSION_DIR=str(tmp_path / "mine")) == ["s1"]


def test_hidden_files_links_and_other_files_are_no_sessions(tmp_path: Path) -> None:
    path = log(tmp_path, *TWO_BRANCHES)
    path.with_name(f".{NAME}.ab12.tmp").write_text("{}")
    path.with_name(f".{NAME}").write_text("{}")
    outside = write(tmp_path / "outside" / NAME, TWO_BRANCHES)
    path.with_name("2026-11-15T20-00-00-000Z_link.jsonl").symlink_to(outside)
    (tmp_path / SESSIONS / "--linked--").symlink_to(outside.parent)
    assert found(tmp_path) == ["s1"]


def test_a_working_directory_does_not_hide_what_a_fork_has_copied(tmp_path: Path) -> None:
    log(tmp_path, *TWO_BRANCHES)
    born = {"timestamp": "2026-11-15T21:00:00Z", "parentSession": f"/x/{NAME}"}
    fork = [{**header("s2", cwd="/elsewhere"), **born}, *TWO_BRANCHES[1:]]
    write(tmp_path / SESSIONS / "--elsewhere--/2026-11-15T21-00-00-000Z_s2.jsonl", fork)
    [summary] = client_of(tmp_path).sessions.list("pi", cwd="/elsewhere")
    assert summary.session_id == "s2"
    assert summary.cost is not None
    assert summary.cost.input_tokens == 0


def test_a_log_of_omp_in_a_shared_folder_is_not_read_as_pis(tmp_path: Path) -> None:
    shared = {"PI_CODING_AGENT_DIR": str(tmp_path / "shared")}
    change = entry("m1", None, 1, "model_change", model="anthropic/claude")
    write(tmp_path / "shared/sessions/--x--" / NAME, [header(), change, user("u", "m1", 2, "Hi")])
    [root] = ADAPTER.roots(host(tmp_path, **shared))
    [source] = ADAPTER.discover(root)
    assert read_source(ADAPTER, source).items == []


def test_the_older_variable_counts_where_the_newer_one_is_not_set(tmp_path: Path) -> None:
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    assert ADAPTER.roots(host(tmp_path, CODING_AGENT_DIR=old)) == [tmp_path / "old/sessions"]
    both = host(tmp_path, CODING_AGENT_DIR=old, PI_CODING_AGENT_DIR=new)
    assert ADAPTER.roots(both) == [tmp_path / "new/sessions"]


# commands


def test_commands_name_the_session_and_print_when_there_is_a_prompt() -> None:
    def argv(*args: Any, **more: Any) -> tuple[str, ...] | None:
        command = ADAPTER.command(*args, **more)
        return None if command is None else command.argv

    assert argv("new") == ("pi",)
    assert argv("new", prompt="hi") == ("pi", "-p", "hi")
    assert argv("resume", session_id="x") == ("pi", "--session", "x")
    assert argv("fork", session_id="x", prompt="hi") == ("pi", "--fork", "x", "-p", "hi")
    assert argv("resume") is None


def test_a_skill_command_is_a_prompt_and_the_text_of_the_skill_is_not(tmp_path: Path) -> None:
    skill = '<skill name="release" location="/s/SKILL.md">\n# Release\n</skill>'
    open_skill = skill.removesuffix("\n</skill>")
    log(
        tmp_path,
        header(),
        user("u1", None, 1, f"{skill}\n\nversion 2"),
        reply("a1", "u1", 2),
        user("u2", "a1", 3, open_skill),
        entry("c1", "u2", 4, "custom_message", customType="x", content="y", attribution="user"),
        reply("a2", "c1", 5),
    )
    session = client_of(tmp_path).sessions.get("pi", "s1")
    assert [(m.content, m.synthetic) for m in session.messages if m.role == "user"] == [
        (skill, True),
        ("/skill:release version 2", False),
        (open_skill, False),
        ("y", True),
    ]
    assert session.turn_count == 2


def test_a_prompt_is_a_better_title_than_a_command(tmp_path: Path) -> None:
    log(tmp_path, header(), user("u1", None, 1, "/login"))
    assert client_of(tmp_path).sessions.get("pi", "s1").title == ""
    lines = [header(), user("u1", None, 1, "/review"), user("u2", "u1", 2, "/plan it")]
    log(tmp_path, *lines)
    assert client_of(tmp_path).sessions.get("pi", "s1").title == "/review"
    log(tmp_path, *lines, reply("a2", "u2", 3))
    assert client_of(tmp_path).sessions.get("pi", "s1").title == "/plan it"
    log(tmp_path, *lines, reply("a2", "u2", 3), user("u3", "a2", 4, "/etc/hosts is empty"))
    assert client_of(tmp_path).sessions.get("pi", "s1").title == "/etc/hosts is empty"
