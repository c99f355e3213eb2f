"""Writes the outcome of every test that is a cell of the live matrix."""

from __future__ import annotations

from collections.abc import Generator
from typing import cast

import pytest
from live_agent import Agent, version_of
from outcomes import Outcome, write_outcome

_OUTCOME = pytest.StashKey[Outcome]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cell(name): a cell of the live matrix in docs/agents.md")


@pytest.fixture
def outcome(request: pytest.FixtureRequest) -> Outcome:
    """Return the place for findings that are no failure."""
    found = Outcome()
    request.node.stash[_OUTCOME] = found
    return found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write the outcome of a cell after its call, or after a set-up that failed."""
    report = yield
    cell = item.get_closest_marker("cell")
    if cell is None or not isinstance(item, pytest.Function):
        return report
    if report.when == "call" or report.failed:
        agent = cast("type[Agent]", item.callspec.params["kind"]).name
        write_outcome(
            agent,
            version_of(agent),
            str(cell.args[0]),
            complaint=report.longreprtext if report.failed else None,
            seconds=report.duration,
            extra=item.stash.get(_OUTCOME, Outcome()),
        )
    return report
