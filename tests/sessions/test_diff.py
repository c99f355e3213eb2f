from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux.model.diff import DiffOperation
from amux.model.message import Role, SessionMessage, SessionToolCall, ToolResult
from amux.model.session import Session
from amux.sessions.diff import diff_messages, diff_sessions
from amux.testing.strategies import messages

ROLES: tuple[Role, ...] = ("user", "assistant", "tool")

# Few roles and texts: nearly every pair of lists has many longest common subsequences.
crowded = st.lists(
    st.builds(SessionMessage, role=st.sampled_from(ROLES), content=st.sampled_from("abc")),
    max_size=14,
)


def talk(*texts: str) -> list[SessionMessage]:
    return [
        SessionMessage(role="assistant" if index % 2 else "user", content=text)
        for index, text in enumerate(texts)
    ]


def session(body: Sequence[SessionMessage], name: str = "x") -> Session:
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    return Session(
        agent="claude",
        session_id=name,
        unified_id=f"claude:{name}",
        title="",
        created_at=moment,
        updated_at=moment,
        turn_count=0,
        tags=(),
        messages=tuple(body),
    )


def types(a: Sequence[SessionMessage], b: Sequence[SessionMessage]) -> list[str]:
    return [operation.type for operation in diff_messages(a, b)]


def lcs_length(a: Sequence[SessionMessage], b: Sequence[SessionMessage]) -> int:
    """The textbook table, as an independent oracle."""
    row = [0] * (len(b) + 1)
    for x in a:
        above = row
        row = [0]
        for j, y in enumerate(b):
            same = (x.role, x.content) == (y.role, y.content)
            row.append(above[j] + 1 if same else max(above[j + 1], row[j]))
    return row[-1]


@drawn(400)
@given(a=crowded, b=crowded)
def test_unchanged_messages_are_a_longest_common_subsequence(
    a: list[SessionMessage], b: list[SessionMessage]
) -> None:
    assert types(a, b).count("unchanged") == lcs_length(a, b)


@drawn(20)
@given(generator=st.randoms(use_true_random=False), size=st.integers(100, 250))
def test_long_sessions_are_aligned_as_well_as_short_ones(generator: object, size: int) -> None:
    import random

    assert isinstance(generator, random.Random)
    pool = [SessionMessage(role=role, content=text) for role in ROLES for text in "abcd"]
    a, b = generator.choices(pool, k=size), generator.choices(pool, k=size + 7)
    assert types(a, b).count("unchanged") == lcs_length(a, b)


@drawn(400)
@given(a=crowded, b=crowded)
def test_every_message_is_in_one_operation_and_in_order(
    a: list[SessionMessage], b: list[SessionMessage]
) -> None:
    operations = diff_messages(a, b)
    assert [op.index_a for op in operations if op.index_a is not None] == list(range(len(a)))
    assert [op.index_b for op in operations if op.index_b is not None] == list(range(len(b)))
    stats = diff_sessions(session(a), session(b)).stats
    assert stats.removals + stats.modifications + stats.unchanged == len(a)
    assert stats.additions + stats.modifications + stats.unchanged == len(b)


@drawn(200)
@given(a=crowded, b=crowded)
def test_each_operation_carries_the_messages_it_speaks_of(
    a: list[SessionMessage], b: list[SessionMessage]
) -> None:
    for op in diff_messages(a, b):
        assert op.message_a is (None if op.index_a is None else a[op.index_a])
        assert op.message_b is (None if op.index_b is None else b[op.index_b])
        sides = (op.message_a is not None, op.message_b is not None)
        match op.type:
            case "addition":
                assert sides == (False, True)
            case "removal":
                assert sides == (True, False)
            case "unchanged" | "modification":
                assert sides == (True, True)
                assert op.message_a is not None
                assert op.message_b is not None
                assert op.message_a.role == op.message_b.role
                same = op.message_a.content == op.message_b.content
                assert same == (op.type == "unchanged")


@drawn(400)
@given(a=crowded, b=crowded)
def test_exchanging_the_sides_mirrors_the_difference(
    a: list[SessionMessage], b: list[SessionMessage]
) -> None:
    def pairs(operations: Sequence[DiffOperation]) -> set[tuple[int | None, int | None, str]]:
        return {(op.index_a, op.index_b, op.type) for op in operations}

    swapped = {"addition": "removal", "removal": "addition"}
    mirrored = {(j, i, swapped.get(kind, kind)) for i, j, kind in pairs(diff_messages(b, a))}
    assert pairs(diff_messages(a, b)) == mirrored


@drawn(50)
@given(body=st.lists(messages(), max_size=5))
def test_a_session_does_not_differ_from_itself(body: list[SessionMessage]) -> None:
    assert set(types(body, body)) <= {"unchanged"}


def test_the_example_of_the_specification() -> None:
    shared = talk(*(f"message {number}" for number in range(10)))
    original = [*shared, SessionMessage(role="user", content="as it was")]
    forked = [*shared, *talk("as it is now", "and", "three", "more")]
    stats = diff_sessions(session(original, "original"), session(forked, "forked")).stats
    assert (stats.removals, stats.additions, stats.modifications, stats.unchanged) == (0, 3, 1, 10)


def test_a_message_put_in_between_is_one_addition() -> None:
    base = talk("a", "b", "c", "d")
    inserted = [*base[:2], SessionMessage(role="system", content="new"), *base[2:]]
    assert types(base, inserted) == ["unchanged"] * 2 + ["addition"] + ["unchanged"] * 2


def test_an_edited_reply_is_one_modification() -> None:
    assert types(talk("a", "b", "c"), talk("a", "B", "c")) == [
        "unchanged",
        "modification",
        "unchanged",
    ]


def test_an_edited_reply_is_paired_with_the_first_that_took_its_place() -> None:
    assert types(talk("a", "b"), talk("a", "B", "more", "still more")) == [
        "unchanged",
        "modification",
        "addition",
        "addition",
    ]


def test_messages_with_different_roles_are_a_removal_and_an_addition() -> None:
    user = [SessionMessage(role="user", content="question")]
    tool = [SessionMessage(role="tool", content="output")]
    assert types(user, tool) == ["removal", "addition"]


def tool_message(command: str, call_id: str) -> SessionMessage:
    call = SessionToolCall(tool_call_id=call_id, tool_name="bash", input={"command": command})
    return SessionMessage(role="assistant", content="", tool_calls=(call,))


def test_messages_without_text_are_distinguished_by_their_tools() -> None:
    assert types([tool_message("ls", "1")], [tool_message("ls", "2")]) == ["unchanged"]
    assert types([tool_message("ls", "1")], [tool_message("rm", "1")]) == ["modification"]


def test_results_without_text_are_distinguished_by_their_output() -> None:
    def result(output: str) -> SessionMessage:
        given = ToolResult(tool_call_id="1", tool_name="bash", output=[output])
        return SessionMessage(role="tool", content="", tool_result=given)

    assert types([result("x")], [result("x")]) == ["unchanged"]
    assert types([result("x")], [result("y")]) == ["modification"]


def test_the_sides_are_named_and_absent_fields_are_left_out() -> None:
    diff = diff_sessions(session(talk("a"), "one"), session(talk("a", "b"), "two")).to_dict()
    assert diff["a"] == {"agent": "claude", "sessionId": "one", "unifiedId": "claude:one"}
    assert diff["b"]["unifiedId"] == "claude:two"
    assert set(diff["operations"][1]) == {"type", "indexB", "messageB"}
    assert diff["stats"] == {"removals": 0, "additions": 1, "modifications": 0, "unchanged": 1}


def test_empty_sessions_have_no_operations() -> None:
    assert diff_messages([], []) == ()
