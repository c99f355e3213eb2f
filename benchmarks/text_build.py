"""Build the text index of a home by the engine alone: `text_build.py HOME FILE messages|tools`.

This is a separate process, so that it can be measured like any program. `messages` indexes only
the texts of users and models, as the peers do; `tools` also indexes the input and output of tools.
"""

from __future__ import annotations

import sys
from pathlib import Path

from amux.adapters import load_builtin
from amux.index.text.documents import source_texts
from amux.index.text.engine import TextIndex
from amux.testing.reading import sources_of


def build(home: Path, target: Path, *, tools: bool) -> None:
    """Read every session of both agents into a new index."""
    index, unit = TextIndex.open(target), 0
    index.begin_bulk()
    for adapter in filter(None, map(load_builtin, ("claude", "codex"))):
        for source in sources_of(adapter, home):
            for _, docs in source_texts(adapter, source, tools=tools).batches:
                unit += 1
                index.add(unit, docs)
    index.finish_bulk()
    index.close()


if __name__ == "__main__":
    build(Path(sys.argv[1]), Path(sys.argv[2]), tools=sys.argv[3] == "tools")
