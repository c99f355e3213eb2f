"""Check that every relative link in the Markdown files leads to a file and a heading that exist.

    python tools/links.py            name the broken links and exit with 1 if there are any

Links to the web are not followed: the check needs no network.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_FENCE = re.compile(r"^(```+).*?^\1$", re.MULTILINE | re.DOTALL)
_ELSEWHERE = ("http://", "https://", "mailto:")


def pages() -> list[Path]:
    """Return every Markdown file of the documentation."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def anchor(heading: str) -> str:
    """Return the fragment of a heading: lower case, no punctuation, dashes instead of spaces."""
    words = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return words.replace(" ", "-")


def prose(page: Path) -> str:
    """Return the text of a page without its code blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def leads_somewhere(page: Path, target: str) -> bool:
    """Return whether the file and the heading that a relative link names exist."""
    name, _, fragment = target.partition("#")
    goal = (page.parent / name).resolve() if name else page
    if not goal.exists():
        return False
    return not fragment or fragment in {anchor(h) for h in _HEADING.findall(prose(goal))}


def broken_links(page: Path) -> Iterator[str]:
    """Yield the broken links of one page."""
    for target in _LINK.findall(prose(page)):
        if not target.startswith(_ELSEWHERE) and not leads_somewhere(page, target):
            yield target


def main() -> int:
    """Print the broken links; return the exit code."""
    broken = [(page, target) for page in pages() for target in broken_links(page)]
    for page, target in broken:
        where = page.relative_to(ROOT).as_posix()
        print(f"error: `{where}` links to `{target}`, which does not exist", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
