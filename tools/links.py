"""Check that every relative link in the Markdown files leads to a file and a heading that exist.

    python tools/links.py            exit 1 and name the broken ones

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
    """Every Markdown file people read here."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def anchor(heading: str) -> str:
    """The fragment a heading gets: lower case, punctuation dropped, spaces to dashes."""
    words = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return words.replace(" ", "-")


def prose(page: Path) -> str:
    """The text of a page without its code blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def leads_somewhere(page: Path, target: str) -> bool:
    """Whether a relative link names a file, and in it a heading, that exist."""
    name, _, fragment = target.partition("#")
    goal = (page.parent / name).resolve() if name else page
    if not goal.exists():
        return False
    return not fragment or fragment in {anchor(h) for h in _HEADING.findall(prose(goal))}


def broken_links(page: Path) -> Iterator[str]:
    """Links of one page that lead nowhere."""
    for target in _LINK.findall(prose(page)):
        if not target.startswith(_ELSEWHERE) and not leads_somewhere(page, target):
            yield target


def main() -> int:
    """Name the broken links; their number decides the exit code."""
    broken = [(page, target) for page in pages() for target in broken_links(page)]
    for page, target in broken:
        where = page.relative_to(ROOT).as_posix()
        print(f"error: `{where}` links to `{target}`, which does not exist", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
