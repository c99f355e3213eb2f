"""A session that is packed, carried to another home and resumed there is the one it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import amux
from amux import LiveSession, NewRecord, PromptSection, SessionFramework, SessionStore, TurnContext
from amux.rollout.ids import is_valid_session_id


@pytest.fixture
def homes(tmp_path: Path) -> tuple[Path, Path]:
    """Return two homes with a project each."""
    for name in ("ann", "bob"):
        (tmp_path / name / "shop").mkdir(parents=True)
    return tmp_path / "ann", tmp_path / "bob"


def work(sm: SessionFramework, home: Path) -> LiveSession:
    """Return a session that names files of a home in every part of its state."""
    shop = str(home / "shop")
    session = sm.start_session(cwd=shop, model="opus", title="Cart", approval_mode="auto")
    state = session.state
    state.model_override, state.level, state.send_policy = "haiku", "high", "deny"
    state.todos = [{"text": f"{shop}/cart.py is wrong"}]
    state.file_history = [{"path": f"{shop}/cart.py", "versions": [f"{shop}/.old/1", "/etc/x"]}]
    state.attribution = {f"{shop}/cart.py": {"agent": 3}}
    state.worktree = {"path": shop, "branch": "main", "shallow": False}
    state.prompt_sections = [PromptSection(name="note", text=shop, origin="user")]
    state.plugins = {"lint": {"n": 1}}
    with session.begin_turn() as turn:
        turn.message("user", "round once")
        turn.message("assistant", "done", usage={"input_tokens": 5}, cost_usd=0.5)
    sm.checkpoint(session)
    return session


def test_a_packed_session_resumes_in_another_home(
    store: SessionStore, homes: tuple[Path, Path], tmp_path: Path
) -> None:
    ann, bob = homes
    session = work(amux.framework(store), ann)
    packed = store.pack(session.thread_id, tmp_path / "cart.amux")
    with SessionStore(bob / "store") as other:
        other.unpack(packed, cwd_map={str(ann): str(bob)})
        resumed = amux.framework(other).resume("Cart")
        state, shop = resumed.state, str(bob / "shop")
        assert resumed.thread_id == session.thread_id
        assert resumed.report is not None
        assert resumed.report.is_complete
        assert state.cwd == shop
        assert state.file_history == [
            {"path": f"{shop}/cart.py", "versions": [f"{shop}/.old/1", "/etc/x"]}
        ]
        assert state.attribution == {f"{shop}/cart.py": {"agent": 3}}
        assert state.worktree == {"path": shop, "branch": "main", "shallow": False}
        assert state.todos == session.state.todos
        assert state.prompt_sections == session.state.prompt_sections
        assert state.plugins == {"lint": {"n": 1}}
        assert (state.model, state.model_override, state.level) == ("opus", "haiku", "high")
        assert (state.approval_mode, state.send_policy) == ("auto", "deny")
        assert resumed.conversation() == session.conversation()
        assert resumed.cost == session.cost
        assert resumed.environment.cwd == shop
        assert resumed.meta.cwd == shop


def test_without_a_map_paths_stay(homes: tuple[Path, Path], tmp_path: Path) -> None:
    ann, bob = homes
    with SessionStore(ann / "store") as store:
        session = work(amux.framework(store), ann)
        packed = store.pack(session.thread_id, tmp_path / "cart.amux")
        before = session.state
    with SessionStore(bob / "store") as other:
        other.unpack(packed)
        resumed = amux.framework(other).resume(session.thread_id)
        assert resumed.state.file_history == before.file_history
        assert resumed.state.cwd == before.cwd


def test_only_whole_parts_of_a_path_are_replaced(tmp_path: Path) -> None:
    store, other = SessionStore("memory:"), SessionStore("memory:")
    sm = amux.framework(store)
    session = sm.start_session(cwd="/home/ann")
    session.state.worktree = {"a": "/home/anna", "b": "/home/ann", "c": "/home/ann/x", "d": 7}
    sm.checkpoint(session)
    other.unpack(store.pack(session.thread_id, tmp_path / "p"), cwd_map={"/home/ann/": "/home/bob"})
    state = amux.framework(other).resume(session.thread_id).state
    assert state.worktree == {"a": "/home/anna", "b": "/home/ann", "c": "/home/bob/x", "d": 7}


def test_a_turn_without_a_directory_keeps_that_of_the_session(tmp_path: Path) -> None:
    store, other = SessionStore("memory:"), SessionStore("memory:")
    thread = store.start(cwd="/old/shop")
    thread.begin_turn(TurnContext(model="haiku")).end()
    other.unpack(store.pack(thread.thread_id, tmp_path / "p"), cwd_map={"/old": "/new"})
    environment = other.open(thread.thread_id).environment
    assert (environment.cwd, environment.model) == ("/new/shop", "haiku")


def test_damaged_snapshots_and_turns_are_carried_as_they_are(tmp_path: Path) -> None:
    store, other = SessionStore("memory:"), SessionStore("memory:")
    thread = store.start(cwd="/old")
    values: list[Any] = ["text", {"premises": 5, "subsystems": [1]}, {"premises": {"cwd": 7}}]
    for value in values:
        thread.set_register("amux.snapshot", value)
    thread.set_register("mine", {"premises": {"cwd": "/old"}})
    thread.append(NewRecord(type="turn_context", payload=["/old"]))
    thread.append(NewRecord(type="turn_context", payload={}))
    other.unpack(store.pack(thread.thread_id, tmp_path / "p"), cwd_map={"/old": "/new"})
    before, after = (list(each.log.read(thread.thread_id)) for each in (store, other))
    assert [each.payload for each in after[1:]] == [each.payload for each in before[1:]]


def test_a_snapshot_of_the_first_version_is_mapped(tmp_path: Path) -> None:
    store, other = SessionStore("memory:"), SessionStore("memory:")
    thread = store.start(cwd="/old")
    thread.set_register(
        "amux.snapshot",
        {"cwd": "/old/a", "worktree_state": {"path": "/old/b"}, "system_prompt": "/old/c"},
    )
    other.unpack(store.pack(thread.thread_id, tmp_path / "p"), cwd_map={"/old": "/new"})
    assert other.open(thread.thread_id).register("amux.snapshot") == {
        "cwd": "/new/a",
        "worktree_state": {"path": "/new/b"},
        "system_prompt": "/old/c",
    }


def test_a_summary_keeps_its_tail_when_records_are_numbered_anew(tmp_path: Path) -> None:
    store, other = SessionStore("memory:"), SessionStore("memory:")
    thread = store.start(cwd="")
    for number in range(6):
        thread.set_register("counter", number)
    for number in range(4):
        thread.message("user", f"question {number}")
    thread.compact("the story", keep_turns=2)
    store.vacuum(thread.thread_id)  # numbers are missing now
    expected = store.open(thread.thread_id).conversation()
    other.unpack(store.pack(thread.thread_id, tmp_path / "p"))
    moved = other.open(thread.thread_id)
    assert moved.conversation() == expected
    hidden = next(each.id for each in moved.items() if "question 2" in each.text)
    other.thread(thread.thread_id).hide([hidden])  # the first kept one: its number decides
    assert [each["content"] for each in moved.conversation()] == [
        "<summary>\nthe story\n</summary>",
        "question 3",
    ]


def test_an_exported_session_is_resumed_with_its_state(
    store: SessionStore, homes: tuple[Path, Path]
) -> None:
    session = work(amux.framework(store), homes[0])
    text = store.export(session.thread_id)
    other = SessionStore("memory:")
    (imported,) = other.import_lines(text.encode().splitlines()).imported
    assert is_valid_session_id(imported)
    resumed = amux.framework(other).resume(imported)
    assert resumed.state.todos == session.state.todos
    assert resumed.report is not None
    assert resumed.report.is_complete
