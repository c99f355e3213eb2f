"""`explain_cost`: every record of a billed call is counted in exactly one session."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from builders import (
    CAPTURES,
    LARGE,
    SMALL,
    UNKNOWN,
    ClaudeSession,
    SharedHome,
    open_client,
    uuid_of,
    write_claude,
)

from amux.adapters import load_builtin
from amux.model.options import SessionListOptions
from amux.model.reports import CostExplanation
from amux.model.usage import NANO, Tokens
from amux.testing import Capture, token_counts
from amux.testing.reading import read_source, sources_of

EVERYTHING = SessionListOptions(limit=None, include_archived=True)


def explain_all(capture: Capture, home: Path) -> dict[str, CostExplanation]:
    client = open_client(home)
    listed = client.list_report((capture.agent,), EVERYTHING).sessions
    return {s.unified_id: client.explain_cost(capture.agent, s.session_id) for s in listed}


def recorded_keys(capture: Capture, home: Path) -> dict[str, set[str]]:
    """The keys of all calls that the sources hold, by session."""
    adapter = load_builtin(capture.agent)
    assert adapter is not None
    keys: dict[str, set[str]] = {}
    for source in sources_of(adapter, home):
        for facts in read_source(adapter, source, "facts").facts:
            keys.setdefault(facts.session_id, set()).update(call.key for call in facts.calls)
    return keys


class Explained(NamedTuple):
    """All sessions of a capture, and what the sources hold."""

    sessions: dict[str, CostExplanation]
    recorded: dict[str, set[str]]


@pytest.fixture(scope="module", params=CAPTURES, ids=lambda capture: capture.name)
def explained(request: pytest.FixtureRequest, shared_home: SharedHome) -> Explained:
    """Each capture once for all tests."""
    capture: Capture = request.param
    home = shared_home(capture)
    return Explained(explain_all(capture, home), recorded_keys(capture, home))


def test_counted_and_ignored_calls_of_a_capture_are_all_there_are(explained: Explained) -> None:
    for explanation in explained.sessions.values():
        found: dict[str, set[str]] = {}
        for one in explanation.calls:
            found.setdefault(one.session_id, set()).add(one.call.key)
        for session_id, keys in found.items():
            assert keys == explained.recorded[session_id]
        assert len(explanation.calls) == sum(map(len, found.values())), "no record twice"


def test_the_counted_calls_of_a_capture_make_its_cost_and_copies_are_counted_elsewhere(
    explained: Explained,
) -> None:
    counted_in = {
        (name, one.call.key)
        for name, explanation in explained.sessions.items()
        for one in explanation.calls
        if one.counted
    }
    for explanation in explained.sessions.values():
        counted = [one for one in explanation.calls if one.counted]
        cost = explanation.cost
        assert cost is not None or not explanation.calls, "nothing of its own costs nothing"
        if cost is not None:
            usd = sum(one.usd or 0.0 for one in counted)
            assert usd == pytest.approx(cost.total_usd, abs=2e-9)
            tokens = sum((one.call.tokens for one in counted), Tokens())
            assert token_counts(cost) == {
                "input": tokens.input,
                "cache_read": tokens.cache_read,
                "cache_write": tokens.cache_write,
                "output": tokens.output,
                "thinking": tokens.thinking or 0,
            }
        for one in explanation.calls:
            if not one.counted:
                assert one.counted_in == (one.reason or "").rsplit(" ", 1)[-1]
                assert (one.counted_in, one.call.key) in counted_in
                assert one.usd is None, "no part of the sum"


def test_a_call_is_shown_with_the_rates_it_was_priced_by(home: Path) -> None:
    session = ClaudeSession(home, uuid_of(1)).prompt("go")
    session.reply(tokens=Tokens(input=1000, cache_read=100, cache_write=10, output=1))
    session.reply(tokens=Tokens(input=1), model=LARGE).reply(
        tokens=Tokens(input=1), model=UNKNOWN
    ).write()
    explanation = open_client(home).explain_cost("claude", uuid_of(1))
    small, large, unknown = explanation.calls
    assert small.rates == {
        "input": 1.0,
        "cacheRead": 0.1,
        "cacheWrite": 1.25,
        "cacheWrite1h": 2.0,
        "output": 10.0,
    }
    by_hand = (1000 * 1.0 + 100 * 0.1 + 10 * 1.25 + 1 * 10.0) / 1_000_000
    assert small.usd == pytest.approx(by_hand, abs=1 / NANO)
    assert (small.price_source, large.price_source) == ("override", "override")
    assert (unknown.price_source, unknown.rates, unknown.usd) == (None, None, None)
    assert explanation.incomplete == ("unpriced-model",)
    assert [one.call.model for one in explanation.calls] == [SMALL, LARGE, UNKNOWN]


def test_a_copy_says_where_it_is_counted_and_what_it_costs_there(home: Path) -> None:
    first = ClaudeSession(home, uuid_of(1)).prompt("go").reply(tokens=Tokens(input=1000))
    first.reply(tokens=Tokens(output=7), model=UNKNOWN).write()
    fork = ClaudeSession(home, uuid_of(2), at=first.at)
    fork.lines = [
        {**each, "sessionId": uuid_of(2)} for each in first.lines if not isinstance(each, bytes)
    ]
    fork.reply(tokens=Tokens(input=5), message_id="own").write()
    client = open_client(home)
    explanation = client.explain_cost("claude", uuid_of(2))
    own, *copies = explanation.calls
    assert (own.counted, own.counted_in, own.usd, own.uncounted_usd) == (True, None, 5e-6, None)
    assert [(one.counted, one.counted_in) for one in copies] == [
        (False, f"claude:{uuid_of(1)}")
    ] * 2
    priced, unknown = copies
    assert (priced.usd, priced.uncounted_usd) == (None, 1e-3)
    assert priced.rates is not None
    assert (unknown.usd, unknown.uncounted_usd, unknown.rates) == (None, None, None)
    assert explanation.cost is not None
    assert explanation.cost.total_usd == 5e-6
    assert explanation.incomplete == (), "what is counted elsewhere makes no sum incomplete here"


def test_repeated_lines_of_a_call_are_counted_as_passed_over(home: Path) -> None:
    session = ClaudeSession(home, uuid_of(1)).prompt("go")
    for _ in range(4):
        session.reply("part", tokens=Tokens(input=10), message_id="msg-1")
    session.write()
    explanation = open_client(home).explain_cost("claude", uuid_of(1))
    assert (len(explanation.calls), explanation.repeats) == (1, 3)


def test_an_amount_recorded_by_the_agent_has_no_rates(home: Path) -> None:
    ClaudeSession(home, uuid_of(1)).prompt("go").reply(
        tokens=Tokens(input=10), costUSD=0.25
    ).write()
    (one,) = open_client(home).explain_cost("claude", uuid_of(1)).calls
    assert (one.price_source, one.rates, one.usd) == ("native", None, 0.25)


def test_a_session_without_usage_has_nothing_to_explain(home: Path) -> None:
    ClaudeSession(home, uuid_of(1)).prompt("only asked").write()
    explanation = open_client(home).explain_cost("claude", uuid_of(1))
    assert (explanation.cost, explanation.calls, explanation.repeats) == (None, (), 0)
    assert "cost" not in explanation.to_dict()


def test_a_prefix_is_enough_to_explain(home: Path) -> None:
    write_claude(home, 1, tokens=Tokens(input=5), prompt="why so dear?")
    explanation = open_client(home).explain_cost("claude", uuid_of(1)[:8])
    assert explanation.unified_id == f"claude:{uuid_of(1)}"
    assert explanation.title == "why so dear?"
