"""Writes the fields that captures and fixtures contain into the tables of known fields.

`src/amux/adapters/<agent>/known_fields.txt` begins with settings; this program replaces the text
after `seen:`. Captures are copied before they are read. With `--check`, nothing is written, and the
exit code is 1 if a table is not up to date.
"""

from __future__ import annotations

import sys
import textwrap
from collections import defaultdict
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from amux.adapters import BUILTIN, known_fields_of, load_builtin
from amux.adapters._base import SourceRef
from amux.adapters._kit.known_fields import KnownFields
from amux.sessions.masking import NAME, masked_name
from amux.sessions.unknown import fields_in, files_of
from amux.testing import find_captures
from amux.testing.reading import sources_of

ROOT = Path(__file__).parent.parent
_BEGIN = "\nseen:\n"
_WIDTH = 100


def main() -> int:
    """Update every table, or check all of them."""
    stale: list[str] = []
    for agent in BUILTIN:
        known = known_fields_of(agent)
        if known is None:
            continue
        path = ROOT / "src" / "amux" / "adapters" / agent / "known_fields.txt"
        before = path.read_text(encoding="utf-8")
        after = before.partition(_BEGIN)[0] + _BEGIN + _text(_seen(agent, known))
        if after != before:
            stale.append(agent)
            if "--check" not in sys.argv:
                path.write_text(after, encoding="utf-8")
    if "--check" in sys.argv and stale:
        print(f"not up to date: {', '.join(stale)}", file=sys.stderr)
        return 1
    return 0


def _seen(agent: str, known: KnownFields) -> dict[str, set[str]]:
    """Return the fields of each record type in all captures and fixtures of an agent."""
    seen: dict[str, set[str]] = defaultdict(set)
    tests = ROOT / "tests"
    captures = (find_captures(tests / folder, agent) for folder in ("captures", "fixtures"))
    for capture in chain.from_iterable(captures):
        with TemporaryDirectory() as folder:
            home = capture.copy_to(Path(folder))
            for path in (path for source in _sources(agent, home) for path in files_of(source)):
                for record_type, field, _ in fields_in(path, known):
                    fields = seen[record_type]
                    if field and masked_name(field) != NAME:
                        fields.add(field)
    return seen


def _sources(agent: str, home: Path) -> list[SourceRef]:
    adapter = load_builtin(agent)
    return [] if adapter is None else sources_of(adapter, home)


def _text(seen: dict[str, set[str]]) -> str:
    lines = (f"{record_type} = {' '.join(sorted(fields))}" for record_type, fields in seen.items())
    wrapped = (
        textwrap.fill(
            line, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
        for line in sorted(lines)
    )
    return "".join(f"{each}\n" for each in wrapped)


if __name__ == "__main__":
    sys.exit(main())
