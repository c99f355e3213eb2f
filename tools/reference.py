"""Write the generated parts of docs/reference, or check that they are up to date.

    python tools/reference.py            write
    python tools/reference.py --check    exit 1 and name what differs

`schema.json` is generated completely, from the public types. In `exit-codes.md` only the lines
between `<!-- generated -->` and `<!-- end -->` are generated; the rest is written by hand.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import msgspec

from amux.errors import EXIT_CODES, ErrorCode
from amux.model.annotation import SessionAnnotations
from amux.model.base import Model
from amux.model.change import SessionChange
from amux.model.cost import CostBlock, CostSummary
from amux.model.diff import SessionDiff
from amux.model.reports import (
    CostExplanation,
    IndexCheck,
    IndexStatus,
    Overview,
    RootReport,
    UnknownReport,
)
from amux.model.session import Session, SessionSummary
from amux.runs.events import AgentEvent
from amux.runs.launch import Launch

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
BEGIN, END = "<!-- generated -->\n", "<!-- end -->\n"
PUBLIC_TYPES = (
    *(SessionSummary, Session, SessionAnnotations, SessionChange, CostSummary, CostBlock),
    *(SessionDiff, CostExplanation, Overview, RootReport, UnknownReport, IndexStatus, IndexCheck),
    *(Launch, AgentEvent),
)


def json_schema() -> str:
    """Return the JSON Schema of everything `--json` and `export` print."""
    _, components = msgspec.json.schema_components(PUBLIC_TYPES, ref_template="#/$defs/{name}")
    for written_whole in _types_that_leave_nothing_out():
        if written_whole.__name__ in components:
            names = [field.encode_name for field in msgspec.structs.fields(written_whole)]
            components[written_whole.__name__]["required"] = names
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "JSON of amux",
        "$defs": dict(sorted(components.items())),
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _types_that_leave_nothing_out() -> list[type[Model]]:
    """Return the types whose defaults are written; msgspec calls their fields optional."""
    return [each for each in Model.__subclasses__() if not each.__struct_config__.omit_defaults]


def exit_code_table() -> str:
    """Return a table of the exit codes and the error codes that lead to them."""
    codes: dict[int, list[str]] = defaultdict(list)
    for code in ErrorCode:
        codes[EXIT_CODES.get(code, 1)].append(f"`{code}`")
    rows = [f"| {number} | {', '.join(codes[number])} |" for number in sorted(codes)]
    return "\n".join(["| exit code | error codes |", "|---|---|", *rows]) + "\n"


def with_block(page: str, block: str) -> str:
    """Return a page with its generated lines replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + block + END + after


def generated() -> dict[Path, str]:
    """Return the current content of each generated file."""
    exit_codes = REFERENCE / "exit-codes.md"
    return {
        REFERENCE / "schema.json": json_schema(),
        exit_codes: with_block(exit_codes.read_text(encoding="utf-8"), exit_code_table()),
    }


def main(arguments: list[str]) -> int:
    """Write the files, or with `--check` compare them; return the exit code."""
    stale = [
        (path, text)
        for path, text in generated().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path, text in stale:
        if "--check" in arguments:
            print(f"error: `{path.name}` is not up to date, run `make docs`", file=sys.stderr)
        else:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.name}", file=sys.stderr)
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
