"""Ids are unique, are checked, and bind a session to its agent."""

from __future__ import annotations

import re
from uuid import UUID

import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

import amux
from amux.rollout.ids import new_entry_id

V4 = "0b5ec2f7-43f5-4f63-9f0e-3f0d1f7c2a10"
V7 = "0199a213-81c0-7800-8aa1-bbab2a035a53"
NIL = "00000000-0000-0000-0000-000000000000"
NO_IDS = (
    "",
    " ",
    V4[:-1],
    V4 + "0",
    V4.replace("-", ""),
    V4.replace("-", "_"),
    f"{{{V4}}}",
    f"urn:uuid:{V4}",
    V4.replace("f", "g"),
    V4.replace("0", "\u0660"),  # a digit, but not of the pattern
    f"../{V4}",
    f"{V4}/..",
    f"{V4}\x00",
    f"x {V4}",
    "20260226-143012-a3f7c901",
)


@pytest.mark.parametrize("value", [V4, V7, NIL, V4.upper(), V7.title()])
def test_an_id_of_any_version_and_case_is_valid(value: str) -> None:
    assert amux.is_valid_session_id(value)
    assert amux.looks_like_session_id(value)


@pytest.mark.parametrize("value", [f" {V4}", f"{V4}\n", f"\t{V7} "])
def test_white_space_around_an_id_is_trimmed_only_where_it_looks_like_one(value: str) -> None:
    assert not amux.is_valid_session_id(value)
    assert amux.looks_like_session_id(value)


@pytest.mark.parametrize("value", NO_IDS)
def test_anything_else_is_no_id(value: str) -> None:
    assert not amux.is_valid_session_id(value)
    assert not amux.looks_like_session_id(value)


@pytest.mark.parametrize("value", [None, 7, b"x", UUID(V4), [V4]])
def test_a_value_that_is_no_text_is_no_id(value: object) -> None:
    assert not amux.is_valid_session_id(value)
    assert not amux.looks_like_session_id(value)


@drawn(100)
@given(st.uuids() | st.uuids(version=4) | st.uuids(version=1))
def test_every_uuid_is_a_valid_id(value: UUID) -> None:
    assert amux.is_valid_session_id(str(value))


@pytest.mark.parametrize("new_id", ["new_thread_id", "new_run_session_id"])
def test_a_new_id_is_a_random_uuid_in_lower_case(new_id: str) -> None:
    found = getattr(amux, new_id)()
    assert amux.is_valid_session_id(found)
    assert UUID(found).version == 4
    assert found == found.lower()


def test_a_thread_and_its_runs_have_different_ids() -> None:
    ids = [amux.new_thread_id(), *(amux.new_run_session_id() for _ in range(3))]
    assert len(set(ids)) == 4


def test_many_new_ids_are_all_different() -> None:
    assert len({amux.new_thread_id() for _ in range(20_000)}) == 20_000


@pytest.mark.slow
def test_a_million_new_ids_are_all_different() -> None:
    assert len({amux.new_thread_id() for _ in range(1_000_000)}) == 1_000_000


def test_an_id_of_two_agents_is_two_sessions() -> None:
    store = {amux.scoped_key("coder", V4): "one", amux.scoped_key("writer", V4): "two"}
    assert store == {f"coder:{V4}": "one", f"writer:{V4}": "two"}


@pytest.mark.parametrize(
    ("agent", "session"), [("", V4), (" ", V4), ("a:b", V4), ("a", ""), ("a", " ")]
)
def test_a_key_without_an_agent_or_a_session_is_refused(agent: str, session: str) -> None:
    with pytest.raises(amux.ValidationError) as caught:
        amux.scoped_key(agent, session)
    assert caught.value.fields in (("agent_id",), ("session_id",))
    assert caught.value.hint


AGENTS = st.text(min_size=1).filter(lambda text: ":" not in text and text.strip())
SESSIONS = st.text(min_size=1).filter(str.strip)


@drawn(200)
@given(st.lists(st.tuples(AGENTS, SESSIONS), min_size=2, max_size=2, unique=True))
def test_different_sessions_have_different_keys(pairs: list[tuple[str, str]]) -> None:
    one, other = (amux.scoped_key(*pair) for pair in pairs)
    assert one != other


def test_an_entry_id_has_eight_hexadecimal_digits() -> None:
    assert all(re.fullmatch("[0-9a-f]{8}", new_entry_id(())) for _ in range(100))


def test_an_entry_id_that_is_taken_is_drawn_again() -> None:
    drawn_ids = iter(["aaaaaaaa", "bbbbbbbb", "cccccccc"])
    assert new_entry_id({"aaaaaaaa", "bbbbbbbb"}, draw=lambda: next(drawn_ids)) == "cccccccc"
