"""A list of session files reads heads and what it can show, and shows what a list of everything does."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import msgspec
import pytest

from amux import create_client
from amux.adapters import load_builtin
from amux.model.options import SessionListOptions
from amux.sessions.listing import ListReport
from amux.testing import find_captures

CAPTURES = find_captures(Path(__file__).parent.parent / "captures", "claude", "codex")
EVERYTHING = SessionListOptions(limit=None, include_children=True, include_archived=True)


def listed(home: Path, agent: str, options: SessionListOptions) -> ListReport:
    report = create_client(home=home).list_report((agent,), options)
    return msgspec.structs.replace(report, problems=())  # nobody looks at what is not shown


def listed_from_everything(home: Path, agent: str, options: SessionListOptions) -> ListReport:
    """Somebody else's adapter is never asked to choose: all sessions are read."""
    client = create_client(home=home)
    client.adapters.register(load_builtin(agent))
    report = client.list_report((agent,), options)
    return msgspec.structs.replace(report, problems=())


@pytest.fixture(scope="module", params=CAPTURES, ids=[capture.name for capture in CAPTURES])
def captured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """A copy of a home, and the agent whose it is."""
    return request.param.copy_to(tmp_path_factory.mktemp("capture")), request.param.agent


def test_every_list_of_a_capture_is_the_one_that_reads_everything(
    captured: tuple[Path, str],
) -> None:
    home, agent = captured
    everything = listed_from_everything(home, agent, EVERYTHING).sessions
    moments = [None, *(session.created_at for session in everything[::2])]
    for limit, since, has_children, direction in product(
        (1, 2, 5, None), moments, (False, True), ("asc", "desc")
    ):
        options = SessionListOptions(
            limit=limit, since=since, include_children=has_children, sort_direction=direction
        )
        assert listed(home, agent, options) == listed_from_everything(home, agent, options)
