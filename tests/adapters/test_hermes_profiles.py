"""Hermes: one id in several profiles is several sessions, and each can be named."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from following import follow
from hermes_stores import START, Store

from amux.client import Client, create_client
from amux.errors import AmbiguousIdError

ID = "api-0123456789abcdef"  # derived from the first message: equal in every profile
NAMES = (f"hermes:default/{ID}", f"hermes:work/{ID}")


def fill(store: Store, answer: str, *, tokens: int, **cells: Any) -> None:
    """Write a session with the common id: one prompt and one answer."""
    usage = {"model": "gpt-5", "input_tokens": tokens, "output_tokens": 1}
    store.session(ID, **usage, **cells)
    store.talk(ID, "hello", answer)


@pytest.fixture
def stores(home: Path) -> tuple[Store, Store]:
    default, work = Store(home / ".hermes"), Store(home / ".hermes" / "profiles" / "work")
    fill(default, "from the default profile", tokens=10)
    fill(work, "from work", tokens=200, started_at=START + 5000)
    work.talk(ID, "more", "of work")
    return default, work


@pytest.fixture(params=["off", "on"])
def client(
    request: pytest.FixtureRequest, stores: tuple[Store, Store], home: Path, tmp_path: Path
) -> Client:
    del stores
    env = {"AMUX_INDEX": request.param, "AMUX_CACHE_DIR": str(tmp_path / "cache")}
    client = create_client(home=home, env=env)
    if request.param == "on":
        client.index.update()
    return client


def test_a_list_shows_each_with_its_profile(client: Client) -> None:
    listed = client.sessions.list("hermes")
    shown = [(one.session_id, one.turn_count, one.raw) for one in listed]
    assert shown == [(ID, 2, {"profile": "work"}), (ID, 1, {})]


def test_the_costs_of_both_are_counted(client: Client) -> None:
    total = client.sessions.total_cost(agent="hermes", group_by="session")
    assert (total.session_count, total.input_tokens) == (2, 210)
    assert total.breakdowns is not None
    counted = {key: group.input_tokens for key, group in total.breakdowns.items()}
    assert counted == dict(zip(NAMES, (10, 200), strict=True))


def test_each_is_shown_by_the_name_of_its_profile(client: Client) -> None:
    for name, answers in (
        (f"default/{ID}", ["from the default profile"]),
        (f"work/{ID}", ["from work", "of work"]),
    ):
        session = client.sessions.get("hermes", name)
        assert session.session_id == ID
        assert [m.content for m in session.messages if m.role == "assistant"] == answers
        assert len(session.calls) == 1
        explained = client.explain_cost("hermes", name)
        assert [each.counted for each in explained.calls] == [True]


@pytest.mark.parametrize("ref", [ID, f"hermes:{ID}", ID[:8]])
def test_the_id_alone_is_ambiguous_and_the_error_names_each(ref: str, client: Client) -> None:
    with pytest.raises(AmbiguousIdError) as caught:
        client.find(ref)
    assert tuple(caught.value.candidates) == NAMES
    with pytest.raises(AmbiguousIdError):
        client.sessions.get("hermes", ref.removeprefix("hermes:"))
    for name in caught.value.candidates:
        found = client.find(name)
        assert client.sessions.get(found.agent, found.native_session_id).session_id == ID


def test_a_search_finds_both(client: Client) -> None:
    hits = client.sessions.search("agent:hermes hello")
    assert [hit.session_id for hit in hits] == [ID, ID]
    (hit,) = client.sessions.search('"from work"')
    assert hit.raw == {"profile": "work"}


def test_a_tag_belongs_to_the_named_one(client: Client) -> None:
    client.annotations.tag(NAMES[1], "mine")
    tagged = {one.raw.get("profile"): one.tags for one in client.sessions.list("hermes")}
    assert tagged == {None: (), "work": ("mine",)}


def test_the_session_that_changed_last_has_the_name_of_its_profile(
    client: Client, stores: tuple[Store, Store]
) -> None:
    for store, name in zip(stores, NAMES, strict=True):
        at = store.path.stat().st_mtime + 100 * (1 + NAMES.index(name))
        os.utime(store.path, (at, at))
        found = client.find_latest(agent="hermes")
        assert f"hermes:{found.native_session_id}" == name


@pytest.mark.parametrize(
    ("name", "answers"),
    [("default", ["from the default profile"]), ("work", ["from work", "of work", "later"])],
)
def test_each_can_be_followed(
    name: str, answers: list[str], stores: tuple[Store, Store], home: Path
) -> None:
    _, work = stores
    later = (3.0, lambda: work.talk(ID, "go on", "later"))
    changes = follow(home, "hermes", f"{name}/{ID}", later, from_start=True)
    said = [change.message for change in changes if change.message is not None]
    assert [m.content for m in said if m.role == "assistant"] == answers


def test_a_profile_that_was_cloned_has_no_sessions_of_its_own(home: Path) -> None:
    default = Store(home / ".hermes")
    fill(default, "once", tokens=10)
    clone = home / ".hermes" / "profiles" / "clone"
    clone.mkdir(parents=True)
    shutil.copy(default.path, clone / "state.db")
    client = create_client(home=home)
    assert [one.session_id for one in client.sessions.list("hermes")] == [ID]
    assert client.sessions.total_cost(agent="hermes").input_tokens == 10
    assert client.sessions.get("hermes", ID).session_id == ID
    assert client.sessions.get("hermes", f"clone/{ID}").session_id == ID


def test_children_belong_to_the_parent_in_their_own_profile(stores: tuple[Store, Store]) -> None:
    for number, store in enumerate(stores):
        store.session(f"child-{number}", parent_session_id=ID, model="gpt-5", input_tokens=number)
        store.talk(f"child-{number}", "task", "done")
        store.session(
            f"branch-{number}", model_config=json.dumps({"_branched_from": ID}), model="gpt-5"
        )
    default, _ = stores
    client = create_client(home=default.path.parent.parent)
    for number, name in enumerate(("default", "work")):
        session = client.sessions.get("hermes", f"{name}/{ID}")
        assert [child.session_id for child in session.children] == [f"child-{number}"]
    assert client.sessions.total_cost(agent="hermes").input_tokens == 211


def test_files_belong_to_the_session_of_their_own_profile(home: Path) -> None:
    default, work = Store(home / ".hermes"), Store(home / ".hermes" / "profiles" / "work")
    default.session("other")
    work.session(ID, model="m")
    for folder, text in ((home / ".hermes", "default"), (work.path.parent, "work")):
        (folder / "sessions").mkdir()
        line = json.dumps({"role": "user", "content": f"a file of {text}"})
        (folder / "sessions" / f"{ID}.jsonl").write_text(line + "\n")
    client = create_client(home=home)
    for name in ("default", "work"):
        assert client.sessions.get("hermes", f"{name}/{ID}").title == f"a file of {name}"
    with pytest.raises(AmbiguousIdError):
        client.sessions.get("hermes", ID)
    assert len(client.sessions.list("hermes")) == 3


def test_the_command_that_resumes_has_the_id_without_the_profile(
    stores: tuple[Store, Store], home: Path, tmp_path: Path
) -> None:
    del stores
    program = tmp_path / "bin" / "hermes"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    client = create_client(home=home, env={"PATH": str(program.parent)})
    launch = client.plan_run("resume", ref=client.find(NAMES[1]))
    assert f"--resume={ID}" in launch.argv
