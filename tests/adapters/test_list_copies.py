"""A list of Claude Code's sessions notices copies in files that it does not show."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import pytest
from claude_homes import BEGAN, Home, Style
from claude_projects import homes
from drawn import drawn
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from list_both_ways import listed, listed_from_everything

from amux.model.options import SessionListOptions
from amux.testing import find_captures

DIRECTIONS: tuple[Literal["asc", "desc"], ...] = ("asc", "desc")


def any_options() -> st.SearchStrategy[SessionListOptions]:
    moments = st.sampled_from([None, None, *(BEGAN + timedelta(minutes=m) for m in (3, 9, 15))])
    return st.builds(
        SessionListOptions,
        since=moments,
        until=moments,
        limit=st.sampled_from([0, 1, 1, 2, 2, 3, None]),
        sort_direction=st.sampled_from(["desc", "asc"]),
        cwd=st.sampled_from([None, None, "/src/app"]),
        include_children=st.booleans(),
    )


@given(st.data())
@drawn(120, suppress_health_check=[HealthCheck.too_slow])
def test_every_list_of_any_project_is_the_one_that_reads_everything(data: st.DataObject) -> None:
    made = data.draw(homes(moving=True))
    with TemporaryDirectory(prefix="amux-list-") as folder:
        home = Path(folder)
        made.write(home)
        for options in data.draw(st.lists(any_options(), min_size=2, max_size=4)):
            found = listed(home, "claude", options)
            assert found == listed_from_everything(home, "claude", options)


@pytest.mark.parametrize("style", ["resume", "fork", "named", "branch"])
@pytest.mark.parametrize("wordy", [False, True], ids=["short", "long"])
@pytest.mark.parametrize("skip", [0, 4], ids=["all", "the end"])
def test_what_only_a_copy_has_is_in_the_row_of_the_original(
    style: Style, wordy: bool, skip: int, tmp_path: Path
) -> None:
    made = Home()
    made.begin("2.1.325", wordy=wordy)
    made.say(0, "2.1.325", wordy=wordy)
    made.begin("2.1.325")
    made.copy(0, style, skip=skip, answers=1, fuller=True)
    made.write(tmp_path)
    options = SessionListOptions(limit=1, sort_direction="asc")
    found = listed(tmp_path, "claude", options)
    assert found == listed_from_everything(tmp_path, "claude", options)
    cost = found.sessions[0].cost
    assert cost is not None
    assert cost.output_tokens >= 5000  # which the original does not say


def check_first_and_last(home: Path) -> None:
    for direction in DIRECTIONS:
        options = SessionListOptions(limit=1, sort_direction=direction)
        found = listed(home, "claude", options)
        assert found == listed_from_everything(home, "claude", options)


@pytest.mark.parametrize("wordy", [False, True], ids=["short", "long"])
def test_a_fork_in_the_folder_of_another_project_is_one(wordy: bool, tmp_path: Path) -> None:
    made = Home()
    made.begin("2.1.325", wordy=wordy)
    made.begin("2.1.325")
    made.copy(0, "fork", skip=0, answers=1, fuller=True)
    made.move(-1)
    made.write(tmp_path)
    check_first_and_last(tmp_path)
    last = listed(tmp_path, "claude", SessionListOptions(limit=1)).sessions[0]
    assert (last.kind, last.parent) == ("fork", made.sessions[0][0])


@pytest.mark.parametrize("wordy", [False, True], ids=["short", "long"])
def test_a_fork_elsewhere_may_begin_where_the_original_was_compacted(
    wordy: bool, tmp_path: Path
) -> None:
    made = Home()
    made.begin("2.1.325")
    skip = len(made.sessions[0][1])
    made.compact(0)
    made.say(0, "2.1.325", wordy=wordy)
    made.begin("2.1.325")
    made.copy(0, "fork", skip=skip, answers=1, fuller=True)
    made.move(-1)
    made.write(tmp_path)
    check_first_and_last(tmp_path)


def test_a_title_may_be_older_than_the_copy_of_the_line_it_is_for(tmp_path: Path) -> None:
    made = Home()
    made.begin("2.1.325")
    made.begin("2.1.325")
    made.note(0, 1)
    made.say(1, "2.1.325")
    made.copy(0, "fork", skip=0, answers=0)
    made.write(tmp_path)
    check_first_and_last(tmp_path)
    (fork,) = listed(tmp_path, "claude", SessionListOptions(limit=1)).sessions
    assert fork.title.startswith("Title")


@given(st.data())
@drawn(60, suppress_health_check=[HealthCheck.too_slow])
def test_where_a_server_counts_its_answers_lists_are_those_that_read_everything(
    data: st.DataObject,
) -> None:
    made = Home()
    ids = st.sampled_from([f"msg_{number}" for number in range(7)])
    for number in range(data.draw(st.integers(2, 5))):
        made.begin("2.1.325", wordy=data.draw(st.booleans()))
        for _ in range(data.draw(st.integers(0, 2))):
            made.say(number, "2.1.325")
        for line in made.sessions[-1][1]:
            if line["type"] == "assistant" and data.draw(st.booleans()):
                line["message"]["id"] = data.draw(ids)
        if data.draw(st.booleans()):
            made.move(number)
    with TemporaryDirectory(prefix="amux-list-") as folder:
        home = Path(folder)
        made.write(home)
        for options in data.draw(st.lists(any_options(), min_size=2, max_size=4)):
            found = listed(home, "claude", options)
            assert found == listed_from_everything(home, "claude", options)


@pytest.mark.parametrize("limit", [1, 4, 15])
def test_a_home_of_all_versions_whose_servers_counted_is_read_whole(
    limit: int, tmp_path: Path
) -> None:
    for capture in find_captures(Path(__file__).parent.parent / "captures", "claude"):
        shutil.copytree(capture.home, tmp_path, dirs_exist_ok=True, symlinks=True)
    for direction in DIRECTIONS:
        options = SessionListOptions(limit=limit, sort_direction=direction, include_children=True)
        found = listed(tmp_path, "claude", options)
        assert found == listed_from_everything(tmp_path, "claude", options)


def test_an_answer_far_behind_the_head_may_be_that_of_another_session(tmp_path: Path) -> None:
    made = Home()
    made.begin("2.1.325", wordy=True)
    made.copy(0, "fork", skip=0, answers=1, fuller=True)
    made.begin("2.1.325")
    for _, lines in made.sessions[:2]:
        place = next(n for n, line in enumerate(lines) if line["type"] == "attachment")
        lines[place] = {**lines[place], "attachment": "x" * (2 << 20)}
    made.write(tmp_path)
    check_first_and_last(tmp_path)
