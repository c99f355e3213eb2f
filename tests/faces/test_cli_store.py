"""`amux store`: every command once for people, once as JSON, on a home copied from the capture."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cli_process import Cli, Result, copied_home
from pseudo_terminal import COLOR, on_terminal

from amux.faces.cli.commands import COMMANDS

TOOLS = "00000001-a11c-4e5e-9000-000000000001"
SUB = "00000003-a11c-4e5e-9000-000000000003"
FORK = "00000005-a11c-4e5e-9000-000000000005"
COMPACTED = "00000007-a11c-4e5e-9000-000000000007"
CLEARED = "00000009-a11c-4e5e-9000-000000000009"
REWOUND = "0000000b-a11c-4e5e-9000-00000000000b"
ARCHIVED = "0000000d-a11c-4e5e-9000-00000000000d"
VERBS = (
    *("list", "show", "new", "append", "resume", "fork", "clear", "compact", "title", "tag"),
    *("search", "lineage", "archive", "unarchive", "export", "import", "delete", "prune", "stats"),
    *("doctor", "rebuild", "optimize", "pack", "unpack", "vacuum", "retention", "erase"),
)


@pytest.fixture
def store(tmp_path: Path) -> Cli:
    """A home with the threads of the capture."""
    return Cli(copied_home(tmp_path, "amux/0.2"))


def piped(cli: Cli, text: str, *words: str) -> Result:
    """Run the command with a text on its stdin."""
    done = subprocess.run(
        cli.command(*words),
        env=cli.env,
        input=text.encode(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def rollouts(cli: Cli) -> dict[str, bytes]:
    folder = cli.home / ".local" / "share" / "amux" / "store"
    return {path.name: path.read_bytes() for path in folder.glob("*sessions/*")}


def ids(result: Result) -> list[str]:
    return [each["threadId"] for each in result.json()]


def test_the_help_lists_every_command(empty: Cli) -> None:
    text = empty("help", "store").out
    assert [verb for verb in VERBS if f"\n    {verb} " not in text] == []
    assert {each.words for each in COMMANDS if each.words.startswith("store ")} == {
        f"store {verb}" for verb in VERBS
    }


def test_a_list_shows_the_threads_that_were_active_last_first(store: Cli) -> None:
    found = store("store", "list")
    assert (found.code, found.err) == (0, "")
    assert [row[0] for row in found.rows()] == [
        f"amux:{each}" for each in (REWOUND, CLEARED, COMPACTED, FORK, SUB, TOOLS)
    ]
    assert found.rows()[-1][1:] == [
        "fake-large", "2", "8", "2026-11-15T20:00:22.123456Z", "cli", "",
        "Create hello.txt containing hello, then show it.",
    ]  # fmt: skip
    assert found.rows()[3][-1].startswith("[fork] Create hello.txt")
    assert store("store").out == found.out


def test_a_list_as_json_has_the_fields_of_a_summary(store: Cli) -> None:
    [thread] = store("store", "list", "--archived", "--json").json()
    assert thread == {
        "threadId": ARCHIVED,
        "createdAt": "2026-11-15T20:01:48.123456Z",
        "updatedAt": thread["updatedAt"],
        "head": 8,
        "agent": "amux",
        "source": "slack",
        "namespace": "bot",
        "key": ["room-1", "thread-7"],
        "payloadFormat": "amux",
        "kind": "session",
        "cwd": "/home/dev",
        "model": "fake-small",
        "title": "Release notes",
        "tags": ["release"],
        "preview": "Draft the release notes",
        "lastMessageAt": "2026-11-15T20:02:00.123456Z",
        "messageCount": 2,
        "turnCount": 1,
        "toolCallCount": 0,
        "inputTokens": 701,
        "outputTokens": 73,
        "cacheReadTokens": 0,
        "cacheWriteTokens": 0,
        "costUsd": 0.0123,
        "archived": True,
        "endedAt": "2026-11-15T20:02:06.123456Z",
        "endReason": "user_exit",
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--all", "--source", "slack"], [ARCHIVED]),
        (["--all", "--tag", "release"], [ARCHIVED]),
        (["--model", "fake-small"], [SUB]),
        (["--limit", "1"], [REWOUND]),
        (["--limit", "1", "--offset", "1"], [CLEARED]),
        (["--since", "2026-11-15T20:01:30Z"], [REWOUND]),
        (["--until", "2026-11-15T20:00:23Z"], [TOOLS]),
        (["--sort", "created", "--limit", "1"], [REWOUND]),
        (["--cwd", "/nowhere"], []),
    ],
)
def test_a_list_can_be_narrowed(store: Cli, options: list[str], expected: list[str]) -> None:
    assert ids(store("store", "list", "--json", *options)) == expected


def test_a_terminal_gets_a_table(store: Cli) -> None:
    screen = COLOR.sub("", on_terminal(store, "store", "list", columns=120))
    assert screen.splitlines()[0].split() == [
        "Thread", "Model", "Turns", "Messages", "Active", "Source", "Summary",
    ]  # fmt: skip


@pytest.mark.parametrize("name", [TOOLS, "00000001", f"amux:{TOOLS}", TOOLS.upper()])
def test_a_thread_is_shown_like_any_session(store: Cli, name: str) -> None:
    shown = store("store", "show", name)
    assert shown.out == store("show", f"amux:{TOOLS}").out
    assert "Grüße! Übersetze „Äpfel“ ins Japanische 🍎" in shown.out
    assert store("store", "show", name, "--json").json()["unifiedId"] == f"amux:{TOOLS}"


def test_a_thread_is_found_by_its_title(store: Cli) -> None:
    assert store("store", "title", "Release notes", "--json").json() == {
        "threadId": ARCHIVED,
        "title": "Release notes",
    }


def test_a_new_thread_is_written_to_and_read_back(empty: Cli, tmp_path: Path) -> None:
    started = empty(
        "store", "new", "--title", "Plan", "-m", "opus", "--message", "Hi", cwd=tmp_path
    )
    thread = started.out.strip()
    assert (started.code, started.err) == (0, "")
    assert empty("store", "append", thread, "Hello", "Ann", "--role", "assistant").code == 0
    assert piped(empty, "two\nlines\n", "store", "append", "Plan").code == 0
    assert piped(empty, "rows", "store", "append", "Plan", "-", "--role", "tool").code == 0
    payload = '{"role": "user", "content": "1.50", "price": 1.50}'
    appended = empty("store", "append", "Plan", payload, "--json-payload", "--json")
    assert appended.json().keys() == {"threadId", "recordId"}
    assert payload in empty("store", "export", "Plan").out
    resumed = empty("store", "resume", "Plan", "--json").json()
    assert resumed["threadId"] == thread
    assert resumed["environment"] == {"cwd": str(tmp_path), "model": "opus"}
    assert resumed["conversation"] == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello Ann"},
        {"role": "user", "content": "two\nlines"},
        {"role": "tool", "content": "rows"},
        {"role": "user", "content": "1.50", "price": 1.5},
    ]


def test_every_run_has_an_id_of_its_own(empty: Cli) -> None:
    new = empty("store", "new", "--json").json()
    runs = {empty("store", "resume", new["threadId"], "--json").json()["runSessionId"]}
    runs |= {new["runSessionId"], new["threadId"]}
    assert len(runs) == 3
    plain = empty("store", "resume", new["threadId"])
    assert plain.out == f"{new['threadId']}\n"
    assert "after 0 messages" in plain.err


def test_a_fork_copies_a_part_and_leaves_the_original(store: Cli) -> None:
    before = rollouts(store)
    forked = store("store", "fork", TOOLS, "--last", "2", "--title", "Apples", "--json").json()
    assert (forked["forkedFrom"], forked["copied"]) == (TOOLS, 2)
    assert before.items() <= rollouts(store).items()
    resumed = store("store", "resume", "Apples", "--json").json()
    assert [each["role"] for each in resumed["conversation"]] == ["user", "assistant"]
    assert store("store", "fork", "Apples").out.strip() in store("store", "list").out
    assert "Apples #2" in store("store", "list").out


def test_compacting_replaces_the_older_part(store: Cli) -> None:
    piped(store, "They said hello.\n", "store", "compact", TOOLS, "--keep-turns", "1")
    conversation = store("store", "resume", TOOLS, "--json").json()["conversation"]
    assert conversation[0]["content"] == "<summary>\nThey said hello.\n</summary>"
    assert len(conversation) == 3
    nothing = store("store", "compact", CLEARED, "--summary", "x", "--json")
    assert nothing.json() == {"threadId": CLEARED, "recordId": None}
    assert nothing.err.startswith("note: nothing was compacted")


def test_titles_are_set_shown_and_removed(store: Cli) -> None:
    assert store("store", "title", TOOLS, "Hello", "file").err == (
        f"note: amux:{TOOLS}: `Hello file`\n"
    )
    assert store("store", "title", "Hello file").out == "Hello file\n"
    assert store("store", "title", TOOLS, "--remove", "--json").json() == {"threadId": TOOLS}
    assert store("store", "title", TOOLS).err == f"note: amux:{TOOLS} has no title\n"


def test_tags_are_added_shown_and_removed(store: Cli) -> None:
    assert store("store", "tag", TOOLS, "b", "a").err == f"note: amux:{TOOLS}: a, b\n"
    assert store("store", "tag", TOOLS).rows() == [["a"], ["b"]]
    left = store("store", "tag", TOOLS, "b", "--remove", "--json").json()
    assert left == {"threadId": TOOLS, "tags": ["a"]}
    assert ids(store("store", "list", "--tag", "a", "--json")) == [TOOLS]
    assert store("store", "tag", REWOUND).err == f"note: amux:{REWOUND} has no tags\n"


def test_a_search_finds_messages_with_their_snippets(store: Cli) -> None:
    [row] = store("store", "search", "japanische").rows()
    assert (row[0], row[2]) == (f"amux:{TOOLS}", "user")
    assert ">>>Japanische<<<" in row[4]
    [hit] = store("store", "search", "japanische", "--json").json()
    assert (hit["threadId"], hit["role"]) == (TOOLS, "user")
    assert ">>>Japanische<<<" in hit["snippet"]
    screen = on_terminal(store, "store", "search", "japanische")
    assert ">>>" not in screen
    assert "\x1b[1;33mJapanische\x1b[0m" in screen


def test_a_search_does_not_find_rewound_messages_unless_asked(store: Cli) -> None:
    assert store("store", "search", "unicorn").err == "note: nothing found\n"
    assert len(store("store", "search", "unicorn", "--rewound").rows()) == 1
    assert len(store("store", "search", "first", "--role", "assistant").rows()) == 1
    assert store("store", "search", "animal", "--thread", TOOLS).out == ""


def test_lineage_shows_relatives(store: Cli) -> None:
    assert store("store", "lineage", FORK).rows() == [
        ["ancestor", f"amux:{TOOLS}", "fork", f"amux:{FORK}", ""]
    ]
    below = store("store", "lineage", TOOLS, "--json").json()["descendants"]
    assert {(each["threadId"], each["kind"]) for each in below} == {
        (FORK, "fork"),
        (SUB, "subagent"),
    }
    assert f"  amux:{SUB}  (subagent)" in COLOR.sub(
        "", on_terminal(store, "store", "lineage", TOOLS)
    )
    assert store("store", "lineage", CLEARED).err == "note: the thread has no relatives\n"


def test_archiving_moves_a_file_and_nothing_else(store: Cli) -> None:
    before = rollouts(store)
    assert store("store", "archive", TOOLS, "--dry-run").err == "note: 1 thread would be archived\n"
    assert store("store", "archive", TOOLS, CLEARED).err == "note: 2 threads archived\n"
    assert {TOOLS, CLEARED} <= set(ids(store("store", "list", "--archived", "--json")))
    back = store("store", "unarchive", TOOLS, "--json").json()
    assert back == {"threadIds": [TOOLS], "dryRun": False}
    assert rollouts(store) == before
    old = store("store", "archive", "--older-than", "0", "--dry-run", "--json").json()
    assert TOOLS in old["threadIds"]


def test_threads_travel_as_json_lines_documents_and_packed_files(
    store: Cli, tmp_path: Path
) -> None:
    exported = tmp_path / "all.jsonl"
    assert store("store", "export", "--all", "-o", str(exported)).code == 0
    other = Cli(store.home, {"AMUX_STORE": str(tmp_path / "other")})
    assert len(other("store", "import", str(exported)).rows()) == 7
    again = piped(other, exported.read_text(), "store", "import", "-", "--json").json()
    assert (again["imported"], len(again["skipped"])) == ([], 7)
    for thread in (TOOLS, FORK, COMPACTED, CLEARED, REWOUND):
        assert conversation(other, thread) == conversation(store, thread)
    third = Cli(store.home, {"AMUX_STORE": str(tmp_path / "third")})
    for format in ("jsonl", "json"):
        target = tmp_path / f"one.{format}"
        store("store", "export", REWOUND, "--format", format, "-o", str(target))
        assert third("store", "import", str(target)).out == f"{REWOUND}\n"
        assert conversation(third, REWOUND) == conversation(store, REWOUND)
        third("store", "delete", REWOUND, "--yes")
    packed = tmp_path / "one.zip"
    assert store("store", "pack", TOOLS, str(packed)).err == f"note: wrote `{packed}`\n"
    assert packed.stat().st_mode & 0o777 == 0o600
    words = ["store", "unpack", str(packed), "--map", "/home/dev=/Users/dev", "--json"]
    assert third(*words).json() == {"threadId": TOOLS}
    assert third("store", "resume", TOOLS, "--json").json()["environment"]["cwd"] == (
        "/Users/dev/src/webapp"
    )
    third("store", "delete", TOOLS, "--yes")
    assert third("store", "import", str(packed), "--json").json()["imported"] == [TOOLS]


def conversation(cli: Cli, thread: str) -> Any:
    return cli("store", "resume", thread, "--json").json()["conversation"]


def test_an_export_for_people_goes_through_the_session(store: Cli) -> None:
    markdown = store("store", "export", TOOLS, "--format", "markdown")
    assert markdown.out == store("export", f"amux:{TOOLS}", "--format", "markdown").out
    assert store("store", "export", TOOLS, "--format", "html").out.startswith("<!doctype html>")


def test_a_session_of_any_agent_becomes_a_thread(claude: Cli) -> None:
    imported = claude("store", "import", "claude:29c5cee3")
    assert imported.code == 0
    thread = imported.out.strip()
    copy = claude("store", "show", thread, "--json").json()
    original = claude("show", "29c5cee3", "--json").json()
    said = [(each["role"], each["content"]) for each in copy["messages"]]
    assert said == [(each["role"], each["content"]) for each in original["messages"]]
    assert len(claude("store", "import", "claude", "29c5cee3", "--json").json()["imported"]) == 1


def test_clearing_empties_the_conversation_and_keeps_the_history(store: Cli) -> None:
    dry = store("store", "clear", TOOLS, "--dry-run", "--json").json()
    assert dry == {"threadId": TOOLS, "messages": 8, "dryRun": True}
    assert len(conversation(store, TOOLS)) == 8
    assert store("store", "clear", TOOLS, "--yes").code == 0
    assert conversation(store, TOOLS) == []
    assert len(store("store", "search", "japanische").rows()) == 1


def test_deleting_removes_the_thread_and_not_its_fork(store: Cli) -> None:
    dry = store("store", "delete", TOOLS, CLEARED, "--dry-run")
    assert dry.err == "note: 2 threads would be deleted\n"
    assert len(rollouts(store)) == 7
    done = store("store", "delete", TOOLS, "--yes", "--json").json()
    assert done == {"threadIds": [TOOLS], "dryRun": False}
    assert len(rollouts(store)) == 6
    assert len(conversation(store, FORK)) == 8
    assert store("store", "delete", CLEARED, "--yes").err == "note: 1 thread deleted\n"


def test_pruning_takes_ended_threads_unless_all_are_asked_for(store: Cli) -> None:
    words = ("store", "prune", "--older-than", "0")
    dry = store(*words, "--dry-run", "--json").json()
    assert {each["threadId"] for each in dry["threads"]} == {TOOLS, ARCHIVED}
    assert (dry["deleted"], dry["dryRun"]) == (0, True)
    assert store(*words, "--source", "slack", "--yes").err == "note: 1 thread deleted\n"
    assert store(*words, "--all", "--yes", "--json").json()["deleted"] == 6
    assert rollouts(store) == {}


def test_a_vacuum_removes_what_was_rewound(store: Cli) -> None:
    dry = store("store", "vacuum", REWOUND, "--dry-run", "--json").json()
    assert dry == {"threadId": REWOUND, "removed": 2, "dryRun": True}
    said = conversation(store, REWOUND)
    assert store("store", "vacuum", REWOUND, "--yes").err.startswith("note: 2 records removed, ")
    assert conversation(store, REWOUND) == said
    assert "unicorn" not in store("store", "export", REWOUND).out
    [hit] = store("store", "search", "heron", "--json").json()
    erased = store("store", "vacuum", REWOUND, "--erase", hit["recordId"], "--yes", "--json")
    assert erased.json()["removed"] == 1
    assert all(b"heron" not in each for each in rollouts(store).values())


@pytest.mark.parametrize("verb", ["delete", "clear", "vacuum"])
def test_what_cannot_be_undone_is_not_done_without_a_terminal(store: Cli, verb: str) -> None:
    before = rollouts(store)
    refused = store("store", verb, REWOUND)
    assert refused.code == 2
    assert refused.err.startswith("error: there is no terminal to ask on: ")
    assert "hint: `--yes` answers it" in refused.err
    error = store("store", verb, REWOUND, "--json").json()
    assert (error["ok"], error["error"]["code"]) == (False, "VALIDATION_ERROR")
    assert rollouts(store) == before


def test_a_prune_without_a_terminal_is_refused_if_it_would_delete(store: Cli) -> None:
    assert store("store", "prune", "--older-than", "0").code == 2
    assert len(rollouts(store)) == 7
    nothing = store("store", "prune", "--older-than", "30000")
    assert (nothing.code, nothing.err) == (0, "note: 0 threads deleted\n")


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 6), ("n\n", 13, 7), ("\n", 13, 7)])
def test_a_terminal_is_asked(store: Cli, answer: str, code: int, left: int) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        store.command("store", "delete", TOOLS),
        env=store.env,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    os.write(ours, answer.encode())
    process.communicate(timeout=60)
    asked = os.read(ours, 65536).decode()
    os.close(ours)
    assert "delete 1 thread for good: `Create hello.txt" in asked
    assert "? [y/N] " in asked
    assert (process.returncode, len(rollouts(store))) == (code, left)


def test_stats_count_messages_turns_and_models(store: Cli) -> None:
    assert store("store", "stats").rows()[:4] == [
        ["threads", "7"], ["archived", "1"], ["messages", "38"], ["turns", "15"],
    ]  # fmt: skip
    stats = store("store", "stats", "--json").json()
    models = {each["model"]: each["inputTokens"] for each in stats["models"]}
    assert models == {"fake-large": 9301, "fake-small": 912}
    assert "7 threads (1 archived)" in on_terminal(store, "store", "stats")


def test_a_healthy_store_is_checked_rebuilt_and_optimized(store: Cli) -> None:
    assert store("store", "doctor").err == "note: 7 threads checked, nothing is wrong\n"
    assert store("store", "doctor", "--json").json() == {
        "checked": 7,
        "threads": [],
        "isHealthy": True,
    }
    assert store("store", "rebuild").err == "note: the index holds 7 threads and 39 messages\n"
    assert store("store", "rebuild", "--json").json() == {"threads": 7, "messages": 39}
    assert "note: the index takes" in store("store", "optimize").err
    optimized = store("store", "optimize", "--json").json()
    assert optimized.keys() == {"bytesBefore", "bytesAfter", "blobsRemoved"}


def test_the_store_may_be_elsewhere(empty: Cli, tmp_path: Path) -> None:
    elsewhere = Cli(empty.home, {"AMUX_STORE": str(tmp_path / "else where")})
    thread = elsewhere("store", "new").out.strip()
    assert ids(elsewhere("store", "list", "--json")) == [thread]
    assert empty("store", "list").err == "note: no thread matches\n"
    assert (tmp_path / "else where" / "sessions").is_dir()
    assert [row[0] for row in elsewhere("list").rows()] == [f"amux:{thread}"]


def test_a_lost_index_is_made_anew(store: Cli) -> None:
    before = store("store", "list", "--json").out
    folder = store.home / ".local" / "share" / "amux" / "store"
    for path in folder.glob("state.db*"):
        path.unlink()
    shutil.rmtree(folder / "changed", ignore_errors=True)
    assert store("store", "list", "--json").out == before
