"""Every text of every agent is indexed with the message that it belongs to."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from builders import CAPTURES, SharedHome
from newest_captures import newest_of_each

from amux.adapters import load_builtin
from amux.adapters._base import Adapter, Head, SourceRef
from amux.adapters._kit.long_lines import LONG_LINE
from amux.adapters.claude import ADAPTER as CLAUDE
from amux.host import Host
from amux.index.text.documents import source_texts
from amux.index.text.engine import UNPLACED_TEXT, TextIndex
from amux.model.message import SessionMessage
from amux.model.texts import TextDoc, strings_in, text_doc
from amux.testing import Capture


def sources(capture: Capture, home: Path) -> list[tuple[Adapter, SourceRef]]:
    adapter = load_builtin(capture.agent)
    assert adapter is not None
    roots = [root for root in adapter.roots(Host(home, platform="linux")) if root.is_dir()]
    return [(adapter, ref) for root in roots for ref in adapter.discover(root)]


def read(adapter: Adapter, ref: SourceRef) -> dict[str, list[TextDoc]]:
    """The texts of the sessions of a source by the definition alone."""
    docs: dict[str, list[TextDoc]] = {}
    session: list[TextDoc] = []
    for item in adapter.read(ref, want="texts"):
        if isinstance(item, Head):
            session = docs.setdefault(item.session_id, [])
        elif isinstance(item, SessionMessage):
            session.append(text_doc(len(session), item, tools=True))
    return docs


def with_text(docs: list[TextDoc]) -> list[TextDoc]:
    return [doc for doc in docs if doc.spoken or doc.tools]


@pytest.mark.parametrize("capture", newest_of_each(CAPTURES))
def test_the_texts_of_every_capture_are_those_of_its_messages(
    capture: Capture, shared_home: SharedHome
) -> None:
    seen = 0
    for adapter, ref in sources(capture, shared_home(capture)):
        found: dict[str, list[TextDoc]] = {}
        for session_id, docs in source_texts(adapter, ref, tools=True).batches:
            found.setdefault(session_id, []).extend(
                doc._replace(location=None) for doc in with_text(docs)
            )
        want = {name: with_text(docs) for name, docs in read(adapter, ref).items()}
        assert {name: docs for name, docs in found.items() if docs} == {
            name: docs for name, docs in want.items() if docs
        }
        seen += sum(map(len, found.values()))
        spoken = [
            doc for _, docs in source_texts(adapter, ref, tools=False).batches for doc in docs
        ]
        assert not any(doc.tools for doc in spoken)
        assert {doc.spoken for doc in spoken if doc.spoken} == {
            doc.spoken for docs in want.values() for doc in docs if doc.spoken
        }
    assert seen > 0


def transcript(path: Path, *contents: str) -> SourceRef:
    lines = [{"type": "user", "uuid": text[:9], "message": {"content": text}} for text in contents]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return SourceRef(agent="claude", path=path, root=path.parent, session_id="s")


def test_a_very_long_text_is_searched_to_its_end(tmp_path: Path) -> None:
    long = f"start {'filler ' * (LONG_LINE // 6)} deepneedle end"
    ref = transcript(tmp_path / "s.jsonl", "short", long)
    index = TextIndex(sqlite3.connect(":memory:", isolation_level=None))
    for _, docs in source_texts(CLAUDE, ref, tools=True).batches:
        assert sum(len(text) for doc in docs for text in (*doc.spoken, *doc.tools)) < LONG_LINE
        index.add(1, docs)
    assert index.documents("word", "eepneedl").ids == [1 << 20 | UNPLACED_TEXT]
    assert index.documents("word", "start").ids == [1 << 20 | UNPLACED_TEXT]
    index.close()


def test_a_large_session_is_read_in_batches(tmp_path: Path) -> None:
    many = [f"{number} {'word ' * 200_000}" for number in range(140)]
    ref = transcript(tmp_path / "s.jsonl", *many)
    batches = [docs for _, docs in source_texts(CLAUDE, ref, tools=False).batches]
    assert len(batches) > 1
    assert [doc.ordinal for docs in batches for doc in docs] == list(range(len(many)))


def test_encoded_images_are_not_searched() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "x/y", "data": "AAAA"}}
    assert list(strings_in(["a", {"b": ("c", 1, None)}, image])) == [
        "a", "c", "image", "base64", "x/y"
    ]  # fmt: skip
