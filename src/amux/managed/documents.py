"""JSON files of managed sessions: the data that only one agent has, one file per session.

Each agent has a directory of its own. A document names its session and the agent's id, so that a
lost database can be made anew from the documents.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from amux.durable import make_private_folder, sync, sync_folder
from amux.errors import StoreError
from amux.model.base import encode_json

_SUFFIX: Final = ".json"
_DECODER: Final = msgspec.json.Decoder(dict[str, Any])


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replace a file by indented JSON; readers see the old file or the new one.

    Raises:
        StoreError: The file cannot be written.
    """
    content = msgspec.json.format(encode_json(value), indent=2) + b"\n"
    try:
        created = make_private_folder(path.parent)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                sync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise
        for folder in {path.parent, *created}:
            sync_folder(folder)
    except OSError as error:
        raise StoreError(f"`{path}` cannot be written ({error.strerror})") from error


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a file; None if there is none.

    Raises:
        StoreError: The file cannot be read, or is no JSON object.
    """
    try:
        return _DECODER.decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"`{path}` cannot be read ({error.strerror})") from error
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise StoreError(f"`{path}` is damaged ({error})") from error


class DocumentFolder:
    """The documents of one agent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, session_id: str) -> Path:
        """Return the file of a session."""
        return self.folder / f"{session_id}{_SUFFIX}"

    def read(self, session_id: str) -> dict[str, Any]:
        """Return the document of a session; an empty one if it is missing or damaged."""
        try:
            return read_json(self.path(session_id)) or {}
        except StoreError:
            return {}

    def write(self, session_id: str, document: Mapping[str, Any]) -> None:
        """Replace the document of a session; raises StoreError."""
        write_json(self.path(session_id), document)

    def delete(self, session_id: str) -> None:
        """Delete the document of a session, if there is one; raises StoreError."""
        try:
            self.path(session_id).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(
                f"`{self.path(session_id)}` cannot be deleted ({error.strerror})"
            ) from error

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield all documents that can be read."""
        try:
            names = sorted(self.folder.iterdir())
        except OSError:
            return
        for path in names:
            if path.suffix == _SUFFIX and not path.name.startswith("."):
                with suppress(StoreError):
                    yield read_json(path) or {}
