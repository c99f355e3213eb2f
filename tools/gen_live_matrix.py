"""Write the live matrix into docs/agents.md, from the outcomes of the last live tests.

    python tools/gen_live_matrix.py

A cell says "yes" only if its test passed in the pinned version on this machine: run `make live`
first. A cell without an outcome says "not run".
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from install_agents import ROOT, Pin, pins
from live_outcomes import CELLS, Outcomes, outcomes_of

PAGE = ROOT / "docs" / "agents.md"
_TABLE = re.compile(r"(?<=<!-- live matrix -->\n).*(?=<!-- end -->)", re.DOTALL)


def table() -> str:
    """Return the table in Markdown."""
    head = f"| agent | version | {' | '.join(CELLS)} |\n|---|---|{'---|' * len(CELLS)}\n"
    return head + "".join(_row(agent, pin) for agent, pin in pins().items())


def _row(agent: str, pin: Pin) -> str:
    version = pin["version"]
    outcomes = outcomes_of(agent, version)
    cells = [_cell(cell, outcomes, can_fork=pin.get("fork", True)) for cell in CELLS]
    return f"| [{agent}](agents/{agent}.md) | {version} | {' | '.join(cells)} |\n"


def _cell(cell: str, outcomes: Outcomes, *, can_fork: bool) -> str:
    if cell == "fork" and not can_fork:
        return "-"
    if cell not in outcomes:
        return "not run"
    return "yes" if outcomes[cell]["passed"] else "no"


def main(page: Path = PAGE) -> None:
    """Replace the table in the page."""
    text = page.read_text(encoding="utf-8")
    if _TABLE.search(text) is None:
        sys.exit(f"error: `{page.name}` has no place for the live matrix")
    page.write_text(_TABLE.sub(table().replace("\\", "\\\\"), text), encoding="utf-8")


if __name__ == "__main__":
    main()
