"""The smallest adapter a third party may write, and some notes for it to read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from builders import START

from amux.client import Client
from amux.model.message import SessionMessage, TokenUsage
from amux.model.session import Session


class NotesAdapter:
    """All that a third party has to write: one text file is one session of one question."""

    agent = "notes"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def session_dir(self, cwd: str | None = None) -> Path:
        return self.folder

    def list_session_files(self, cwd: str | None = None) -> Iterable[Path]:
        return sorted(self.folder.glob("*.txt"))

    def parse_session_file(self, file: str | Path) -> Session:
        question, answer = Path(file).read_text().split("\n", 1)
        usage = TokenUsage(input_tokens=1000, output_tokens=len(answer.split()))
        return Session(
            agent=self.agent,
            session_id=Path(file).stem,
            unified_id="",
            title="",
            created_at=START,
            updated_at=START,
            turn_count=0,
            tags=(),
            model="m-small",
            messages=(
                SessionMessage(role="user", content=question),
                SessionMessage(role="assistant", content=answer.strip(), token_usage=usage),
            ),
        )


def write_notes(folder: Path) -> NotesAdapter:
    """Two sessions that begin alike."""
    folder.mkdir()
    (folder / "one.txt").write_text("What is a mux?\nA device with one output.\n")
    (folder / "two.txt").write_text("What is a mux?\nOne output, many inputs.\n")
    return NotesAdapter(folder)


def adapter_folder(client: Client) -> Path:
    adapter = client.adapters.get("notes")
    assert adapter is not None
    return adapter.session_dir()
