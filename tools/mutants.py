"""Run after `mutmut run`: say how many changes of the code the tests noticed, and which not.

    python tools/mutants.py

A mutant is the code with one small change. It survives if no test fails. The exit code is 1 if less
than 85 % of the mutants are killed, or if a function with survivors is not explained in
`docs/internals/mutants.md`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

WANTED = 0.85
PAGE = Path("docs/internals/mutants.md")
_KILLED = frozenset({"killed", "timeout", "caught by type check", "suspicious", "segfault"})
_LINE = re.compile(r"^\s*(?P<name>\S+)__mutmut_\d+: (?P<outcome>.+)$")


def outcomes() -> dict[str, Counter[str]]:
    """Return how often each outcome occurred, by function."""
    listed = subprocess.run(
        [sys.executable, "-m", "mutmut", "results", "--all", "true"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for line in listed.splitlines():
        matched = _LINE.match(line)
        if matched is not None:
            name = matched["name"].removeprefix("amux.lifecycle.").replace("ǁ", ".")
            found[name.replace(".x_", ".").replace(".x.", ".")][matched["outcome"].strip()] += 1
    return found


def main() -> None:
    """Print the share of killed mutants and the functions with survivors."""
    found = outcomes()
    total = sum(counts.total() for counts in found.values())
    killed = sum(counts[each] for counts in found.values() for each in _KILLED)
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    unexplained = 0
    for name, counts in sorted(found.items()):
        survived = counts.total() - sum(counts[each] for each in _KILLED)
        if survived:
            known = f"`{name}`" in page
            unexplained += not known
            print(f"{survived:4} of {counts.total():4}  {name}{'' if known else '  (unexplained)'}")
    share = killed / total if total else 0.0
    print(f"{killed} of {total} mutants killed: {share:.1%}, wanted {WANTED:.0%}")
    sys.exit(share < WANTED or unexplained > 0)


if __name__ == "__main__":
    main()
