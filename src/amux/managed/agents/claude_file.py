"""The list of Claude's sessions: a JSON file with all ids, the time and the last prompt.

{"session_ids": ["uuid-1", "uuid-2"], "last_updated": "...", "last_prompt": "..."}
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from amux.durable import PRIVATE_FILE, lock, make_private_folder
from amux.errors import StoreError
from amux.managed.documents import read_json, write_json
from amux.rollout.ids import is_valid_session_id

_LOGGER = logging.getLogger("amux")


class ClaudeSessionFile:
    """One list of session ids, which several processes may share.

    `lock_path` is a file beside which writers wait for each other; it need not be near the list.
    """

    def __init__(self, path: Path, now: Callable[[], datetime], *, lock_path: Path) -> None:
        self.path = path
        self._now = now
        self._lock_path = lock_path
        self.session_ids: list[str] = []
        self.last_updated: str | None = None
        self.last_prompt: str | None = None
        self._added: list[str] = []
        self.load()

    def load(self) -> None:
        """Read the file; a missing one is empty, and one that is damaged is told and left alone."""
        try:
            found = read_json(self.path) or {}
        except StoreError as error:
            _LOGGER.warning("%s; the list of sessions begins anew", error)
            found = {}
        self.session_ids = _ids_in(found)
        self.last_updated = _text(found.get("last_updated"))
        self.last_prompt = _text(found.get("last_prompt"))

    def get_last_session_id(self) -> str | None:
        """Return the last id; None if there is none, or if it is not a UUID."""
        if not self.session_ids:
            return None
        last = self.session_ids[-1]
        if not is_valid_session_id(last):
            _LOGGER.warning("`%s` names `%s`, which is not a session id", self.path, last)
            return None
        return last

    def add_session_id(self, session_id: str, *, prompt: str | None = None) -> None:
        """Make an id the last one; `save_session_data` stores it."""
        self._added = [*(id for id in self._added if id != session_id), session_id]
        self.session_ids = [*(id for id in self.session_ids if id != session_id), session_id]
        if prompt is not None:
            self.last_prompt = prompt

    def save_session_data(self) -> None:
        """Write the file; ids that other processes have added since are kept.

        Raises:
            StoreError: The file cannot be written.
        """
        with self._locked():
            try:
                known = _ids_in(read_json(self.path) or {})
            except StoreError:
                self._set_aside()
                known = []
            merged = [*(id for id in known if id not in self._added), *self._added]
            self.session_ids = merged or self.session_ids
            self.last_updated = self._now().isoformat()
            content: dict[str, Any] = {
                "session_ids": self.session_ids,
                "last_updated": self.last_updated,
                "last_prompt": self.last_prompt,
            }
            write_json(self.path, content)

    def _set_aside(self) -> None:
        try:
            self.path.replace(self.path.with_name(f"{self.path.name}.damaged"))
        except OSError as error:
            raise StoreError(f"`{self.path}` cannot be replaced ({error.strerror})") from error

    @contextmanager
    def _locked(self) -> Generator[None]:
        try:
            make_private_folder(self._lock_path.parent)
            descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
        except OSError as error:
            raise StoreError(f"`{self._lock_path}` cannot be used ({error.strerror})") from error
        try:
            lock(descriptor)
            yield
        finally:
            os.close(descriptor)


def _ids_in(content: Mapping[str, Any]) -> list[str]:
    ids = content.get("session_ids")
    return [str(id) for id in cast("list[object]", ids)] if isinstance(ids, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
