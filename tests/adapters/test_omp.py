"""Tests oh-my-pi on every capture, and its differences from Pi."""

from __future__ import annotations

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
    write,
)

from amux.adapters.omp import ADAPTER
from amux.adapters.pi import ADAPTER as PI
from amux.client import Client, create_client
from amux.host import Host
from amux.testing import AdapterSuite, find_captures
from amux.testing.reading import read_source, sources_of

CAPTURES = Path(__file__).parent.parent / "captures"
SESSIONS = Path(".omp/agent/sessions")
FOLDER = SESSIONS / "-src-app"
STEM = "2026-11-15T20-00-00-000Z_s1"
TALK = (user("u1", None, 1, "Hi"), reply("a1", "u1", 2))


class TestOmp(AdapterSuite):
    adapter = ADAPTER
    captures = find_captures(CAPTURES, "omp")
    relocation = {
        "PI_CODING_AGENT_DIR": "elsewhere",
        "PI_CODING_AGENT_SESSION_DIR": "elsewhere",
        "PI_CONFIG_DIR": "elsewhere",
    }


def client_of(home: Path) -> Client:
    client = create_client(home=home)
    client.adapters.register(ADAPTER)
    return client


def log(home: Path, *lines: Any, name: str = f"{STEM}.jsonl") -> Path:
    return write(home / FOLDER / name, lines)


def slot(title: str) -> Json:
    return {"type": "title", "v": 1, "title": title, "updatedAt": "2026-11-15T20:00:00Z"}


def test_one_log_says_the_same_in_both_agents(tmp_path: Path) -> None:
    captured = find_captures(CAPTURES, "pi")[-1].copy_to(tmp_path)
    (captured / ".pi").rename(captured / "kept")
    (captured / "kept").rename(captured / ".omp")
    omp = [read_source(ADAPTER, source).items for source in sources_of(ADAPTER, captured)]
    (captured / ".omp").rename(captured / ".pi")
    pi = [read_source(PI, source).items for source in sources_of(PI, captured)]
    assert len(pi) == 16
    assert omp == pi


# titles


@pytest.mark.parametrize(
    ("before", "recorded", "after", "title"),
    [
        ([slot("Slot")], "Header", [], "Slot"),
        ([slot("")], None, ["Changed", "Last"], "Last"),
        ([], "Header", [], "Header"),
        ([], "Header", ["Changed"], "Changed"),
        ([slot("")], None, [], "Hi"),
        ([slot("")], "", [], "Hi"),
    ],
)
def test_the_slot_comes_before_the_last_change_and_the_header(
    tmp_path: Path, before: list[Json], recorded: str | None, after: list[str], title: str
) -> None:
    changes = [entry(f"t{i}", "a1", 3, "title_change", title=t) for i, t in enumerate(after)]
    log(tmp_path, *before, header(title=recorded), *TALK, *changes)
    assert client_of(tmp_path).sessions.get("omp", "s1").title == title


def test_a_text_the_agent_wrote_is_not_a_prompt(tmp_path: Path) -> None:
    notice = user("u0", None, 1, "<system-notice>", attribution="agent")
    log(tmp_path, header(), notice, user("u1", "u0", 2, "Hi", attribution="user"))
    session = client_of(tmp_path).sessions.get("omp", "s1")
    assert session.title == "Hi"
    assert [m.synthetic for m in session.messages] == [True, False]


# sub-agents


def child(home: Path, path: str, session_id: str, *lines: Json) -> None:
    parent = f"/home/dev/{FOLDER}/{STEM}.jsonl"
    init = entry("i1", None, 1, "session_init", task="Count the files")
    task = user("u1", "i1", 2, "Count the files", attribution="agent")
    own = lines or (reply("a1", "u1", 3),)
    write(home / FOLDER / STEM / path, [header(session_id, parentSession=parent), init, task, *own])


def test_a_sub_agent_hangs_below_its_session_and_is_paid_by_it(tmp_path: Path) -> None:
    log(tmp_path, header(), *TALK)
    child(tmp_path, "Count.jsonl", "c1")
    child(tmp_path, "Count/Deeper.jsonl", "c2", reply("a1", "u1", 9))
    client = client_of(tmp_path)
    session = client.sessions.get("omp", "s1")
    children = sorted(session.children, key=lambda child: child.session_id)
    assert [(c.session_id, c.kind, c.parent) for c in children] == [
        ("c1", "subagent", "s1"),
        ("c2", "subagent", "s1"),
    ]
    assert children[0].title == "Count the files"
    assert session.cost is not None
    assert session.cost.input_tokens == 102 + 103 + 109
    assert [s.session_id for s in client.sessions.list("omp")] == ["s1"]
    assert client.sessions.total_cost(agent="omp").input_tokens == 314


def test_a_file_beside_its_parent_is_a_fork(tmp_path: Path) -> None:
    log(tmp_path, header(), *TALK)
    late = {"timestamp": "2026-11-15T21:00:00Z"}
    fork = {**header("s2", parentSession=f"/x/{STEM}.jsonl"), **late}
    log(tmp_path, fork, *TALK, name="2026-11-15T21-00-00-000Z_s2.jsonl")
    session = client_of(tmp_path).sessions.get("omp", "s2")
    assert (session.kind, session.forked_from, session.calls) == ("fork", "s1", ())


def test_what_a_sub_agent_did_not_get_to_do_was_not_billed(tmp_path: Path) -> None:
    nothing: Json = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    log(tmp_path, header(), *TALK)
    stopped = reply("a2", "a1", 4, "", content=[], stopReason="aborted", usage=nothing)
    child(tmp_path, "0-Count.jsonl", "c1", reply("a1", "u1", 3), stopped)
    [inner] = client_of(tmp_path).sessions.get("omp", "s1").children
    assert len(inner.calls) == 1
    assert inner.cost is not None
    assert inner.cost.incomplete == ()


# usage


def test_a_helper_s_call_counts_but_gives_the_session_no_model(tmp_path: Path) -> None:
    helper = entry("h1", "a1", 3, "model_usage", model="small", purpose="x", usage=usage(9))
    log(tmp_path, header(), *TALK, helper)
    session = client_of(tmp_path).sessions.get("omp", "s1")
    assert (session.model, session.models) == ("fake-large", ("fake-large",))
    assert [call.purpose for call in session.calls] == ["main", "auxiliary"]


@pytest.mark.parametrize("exited", [True, False])
def test_a_session_that_exited_was_not_interrupted(tmp_path: Path, *, exited: bool) -> None:
    bye = [entry("e1", "u1", 2, "custom", customType="session_exit", data={"kind": "normal"})]
    log(tmp_path, header(), TALK[0], *(bye if exited else []))
    [facts] = read_only(ADAPTER, tmp_path).facts
    assert facts.gaps == (() if exited else ("call-interrupted",))


# images


def test_a_large_image_is_read_from_its_own_file(tmp_path: Path) -> None:
    digest = "ab" * 32
    blobs = tmp_path / ".omp/agent/blobs"
    blobs.mkdir(parents=True)
    (blobs / digest).write_bytes(b"hi")
    refs = [f"blob:sha256:{digest}", f"blob:sha256:{'cd' * 32}", "blob:sha256:../../x"]
    images = [{"type": "image", "mimeType": "image/webp", "data": ref} for ref in refs]
    log(tmp_path, header(), user("u1", None, 1, "", content=images), reply("a1", "u1", 2))
    shown = read_only(ADAPTER, tmp_path).messages[0].images
    assert shown == ("data:image/webp;base64,aGk=",)


# places


def test_profiles_and_xdg_move_the_sessions(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert ADAPTER.roots(host(home)) == [home / ".omp/agent/sessions"]
    assert ADAPTER.roots(host(home, PI_CONFIG_DIR=".pi2")) == [home / ".pi2/agent/sessions"]
    work = home / ".omp/profiles/work/agent/sessions"
    assert ADAPTER.roots(host(home, OMP_PROFILE="work")) == [work]
    assert ADAPTER.roots(host(home, PI_PROFILE="work")) == [work]
    assert ADAPTER.roots(host(home, OMP_PROFILE="", PI_PROFILE="work")) == [
        home / ".omp/agent/sessions"
    ]
    assert ADAPTER.roots(host(home, OMP_PROFILE="../../etc")) == [home / ".omp/agent/sessions"]
    xdg = {"XDG_DATA_HOME": str(tmp_path / "data")}
    assert tmp_path / "data/omp/sessions" in ADAPTER.roots(host(home, **xdg))
    windows = Host(home, env=xdg, platform="win32")
    assert ADAPTER.roots(windows) == [home / ".omp/agent/sessions"]


def test_a_log_of_pi_in_a_shared_folder_is_not_read_as_omps(tmp_path: Path) -> None:
    change = entry("m1", None, 1, "model_change", provider="anthropic", modelId="claude")
    path = tmp_path / "shared/sessions/--x--" / f"{STEM}.jsonl"
    write(path, [header(), change, user("u1", "m1", 2, "Hi")])
    [root] = ADAPTER.roots(host(tmp_path, PI_CODING_AGENT_DIR=str(tmp_path / "shared")))
    [source] = ADAPTER.discover(root)
    assert read_source(ADAPTER, source).items == []


def test_results_and_notes_of_sub_agents_are_no_sessions(tmp_path: Path) -> None:
    log(tmp_path, header(), *TALK)
    (tmp_path / FOLDER / STEM).mkdir()
    (tmp_path / FOLDER / STEM / "Count.md").write_text("1 file")
    assert texts(read_only(ADAPTER, tmp_path)) == ["Hi", "Yes."]


def test_commands_name_the_session() -> None:
    def argv(*args: Any, **more: Any) -> tuple[str, ...] | None:
        command = ADAPTER.command(*args, **more)
        return None if command is None else command.argv

    assert argv("new", prompt="hi") == ("omp", "-p", "hi")
    assert argv("resume", session_id="x") == ("omp", "--resume", "x")
    assert argv("fork", session_id="x") == ("omp", "--fork", "x")
    assert argv("fork") is None
