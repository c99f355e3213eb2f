"""A pytest plug-in that runs the session tests of the OpenAI Agents SDK with our session.

`AMUX_SUITE_STORE` is the address of the store. `SQLiteSession` is replaced before any test module
is imported. Tests that create the same database share its sessions, others do not.
"""

from __future__ import annotations

import importlib
import os
import uuid
from pathlib import Path
from typing import Any

import agents.memory
import agents.memory.sqlite_session as sqlite_sessions

from amux.integrations.openai_agents import MAIN, AmuxSession
from amux.integrations.openai_agents_thread import ItemThread
from amux.store.session_store import SessionStore

STORE = SessionStore(os.environ["AMUX_SUITE_STORE"])


class SQLiteSession(AmuxSession):
    """Our session with the arguments of the SDK's own; a database is the first part of a key."""

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        session_settings: Any = None,
    ) -> None:
        database = uuid.uuid4().hex if str(db_path) == ":memory:" else str(Path(db_path).resolve())
        self.database = (database, sessions_table, messages_table)
        super().__init__(session_id, STORE, session_settings=session_settings)

    def _thread_of(self, branch: str) -> ItemThread:
        branches = () if branch == MAIN else (branch,)
        return ItemThread(self.store, (*self.database, self.session_id, *branches))


for _module in ("encrypt_session", "advanced_sqlite_session", "async_sqlite_session"):
    importlib.import_module(f"agents.extensions.memory.{_module}")  # they build on the original
sqlite_sessions.SQLiteSession = SQLiteSession  # type: ignore[assignment,misc]  # the purpose
agents.memory.SQLiteSession = SQLiteSession  # type: ignore[assignment,misc]
agents.SQLiteSession = SQLiteSession  # type: ignore[assignment,misc]
