"""Names of the small files that lie beside Cursor's databases and say more about them."""

from __future__ import annotations

from typing import Final

CHAT_NOTES: Final = "meta.json"
WORKSPACE_NOTES: Final = "workspace.json"
