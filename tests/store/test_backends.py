"""Every backend runs the whole published suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from amux.rollout.log import ThreadLog
from amux.store.file_log.log import FileLog
from amux.store.memory import MemoryLog
from amux.store.postgres.log import PostgresLog
from amux.testing import BackendSuite


class TestMemory(BackendSuite):
    is_durable = False

    def open_log(self, place: Path) -> ThreadLog:
        return MemoryLog()


class TestFiles(BackendSuite):
    def open_log(self, place: Path) -> ThreadLog:
        return FileLog(place / "store")


class TestPostgres(BackendSuite):
    @pytest.fixture(autouse=True)
    def _url(self, store_url: str) -> None:
        self.url = store_url

    def open_log(self, place: Path) -> ThreadLog:
        return PostgresLog(self.url)
