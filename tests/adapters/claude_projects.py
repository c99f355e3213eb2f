"""Hypothesis strategies for Claude Code projects: begun, resumed, copied, titled in any order."""

from __future__ import annotations

from claude_homes import VERSIONS, Home, Style
from hypothesis import strategies as st

STYLES: list[Style] = ["resume", "fork", "named", "branch"]
STEPS = ["begin", "begin", "say", "say", "copy", "copy", "note", "title", "agent"]


@st.composite
def homes(draw: st.DrawFn, *, moving: bool = False) -> Home:
    """Generate homes; `moving` puts some forks into the folder of another project."""
    home = Home()
    home.begin(draw(st.sampled_from(VERSIONS)), wordy=draw(st.booleans()))
    which, few = st.integers(0, 9), st.integers(0, 2)
    styles = st.sampled_from(STYLES)
    versions = st.sampled_from(VERSIONS)
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=2, max_size=9)):
        match step:
            case "begin":
                place = draw(st.sampled_from(["/src/app", "/src/other"]))
                home.begin(draw(versions), cwd=place, wordy=draw(st.booleans()))
            case "say":
                home.say(draw(which), draw(versions))
            case "copy":
                style = draw(styles)
                is_moved = moving and style == "fork" and draw(st.booleans())
                home.copy(
                    draw(which),
                    style,
                    skip=0 if is_moved else draw(few) * 2,
                    answers=draw(few),
                    fuller=draw(st.booleans()),
                )
                if is_moved:
                    home.move(-1)
            case "note":
                home.note(draw(which), draw(which))
            case "title":
                home.title(draw(which))
            case _:
                prompt = draw(st.sampled_from(["Look", "Warmup"]))
                home.agent(draw(which), beside=draw(st.booleans()), prompt=prompt)
    return home
