"""agent: the published suite on a home written by hand, as the program was not available."""

from __future__ import annotations

import atexit
from pathlib import Path
from tempfile import TemporaryDirectory

from agent_logs import write_capture

from amux.adapters.agent import ADAPTER
from amux.testing import AdapterSuite, find_captures

_FOLDER = TemporaryDirectory(prefix="amux-agent-")  # the suite asks for captures when it collects
atexit.register(_FOLDER.cleanup)
write_capture(Path(_FOLDER.name))


class TestAgent(AdapterSuite):
    adapter = ADAPTER
    captures = find_captures(Path(_FOLDER.name), "agent")
    relocation = {"XDG_CONFIG_HOME": "elsewhere"}
