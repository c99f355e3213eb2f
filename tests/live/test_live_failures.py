"""A model that fails before it answers: Pi tries again, and the call is counted once."""

from __future__ import annotations

from pathlib import Path

import pytest
from agents import Pi
from live_agent import scripted, session_of
from model_protocols import Reply
from served_truth import differences, truth_of

from amux.client import create_client

pytestmark = pytest.mark.slow

PROMPT = "Greet me."


@pytest.mark.parametrize(
    "failure", [Reply(status=429), Reply(status=500, delay=0.5)], ids=["429", "500"]
)
def test_a_call_that_failed_and_was_repeated_is_counted_once(failure: Reply, home: Path) -> None:
    with scripted(Pi, home, {PROMPT: [failure, Reply("Hello.")]}) as pi:
        result = pi.ask(PROMPT)
        assert result.text == "Hello."
        truth = truth_of(pi, PROMPT)
        assert differences(pi, {session_of(result): truth}) == []


def test_an_answer_that_was_cut_is_shown_as_far_as_it_came(home: Path) -> None:
    half = Reply("You will hear half of it.", cut=True)
    with scripted(Pi, home, {PROMPT: [half, Reply("Hello.")]}) as pi:
        result = pi.ask(PROMPT)
        session = create_client(home=home).sessions.get("pi", session_of(result))
        answers = [one.content for one in session.messages if one.role == "assistant"]
        assert answers == ["You will hea", "Hello."]
        assert [one.finished for one in pi.model.served] == [False, True]
