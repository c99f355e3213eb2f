"""Compares the answers of two session databases whose clocks differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

FOREIGN = {
    "handoff": {"handoff_state", "handoff_platform", "handoff_error"},
    "chat gateways": {"session_key", "chat_id", "chat_type", "thread_id", "display_name"},
    "origins": {"origin_json", "expiry_finalized", "profile_name"},
    "git": {"git_branch", "git_repo_root"},
    "retries of compression": {
        "compression_failure_cooldown_until",
        "compression_failure_error",
        "compression_fallback_streak",
    },
    "replay to providers": {"effect_disposition", "platform_message_id", "observed", "api_content"},
}
"""Columns of the real class that the specification does not have, by what they are for."""

OURS = {"cwd", "rewind_count", "archived", "active", "compacted"}
"""Columns of ours that the real class does not have in version 0.13.0."""


class Comparison:
    """Compares answers. Each time of theirs stands for one time of ours, from the first use on."""

    def __init__(self, version: str) -> None:
        self._ignored = set[str]().union(*FOREIGN.values())
        self._ignored |= OURS if version == "0.13.0" else set()
        self._ours: dict[float, float] = {}
        self._theirs: dict[float, float] = {}

    def differences(self, theirs: object, ours: object, where: str = "") -> Iterator[str]:
        """Yield a sentence for each difference, with the path to it."""
        if isinstance(theirs, dict) and isinstance(ours, dict):
            yield from self._of_dicts(cast("Any", theirs), cast("Any", ours), where)
        elif isinstance(theirs, list) and isinstance(ours, list):
            yield from self._of_lists(cast("Any", theirs), cast("Any", ours), where)
        elif isinstance(theirs, float) and isinstance(ours, float) and min(theirs, ours) > 1e9:
            if not self._is_same_time(theirs, ours):
                yield f"{where}: the time {theirs} was another one before"
        elif theirs != ours:
            yield f"{where} is {theirs!r}, ours is {ours!r}"

    def _of_dicts(self, theirs: dict[str, Any], ours: dict[str, Any], where: str) -> Iterator[str]:
        for key in sorted((theirs.keys() | ours.keys()) - self._ignored):
            if key not in theirs or key not in ours:
                yield f"{where}.{key} is on one side only"
            else:
                yield from self.differences(theirs[key], ours[key], f"{where}.{key}")

    def _of_lists(self, theirs: list[Any], ours: list[Any], where: str) -> Iterator[str]:
        if len(theirs) != len(ours):
            yield f"{where} has {len(theirs)} items, ours has {len(ours)}"
            return
        for number, (left, right) in enumerate(zip(theirs, ours, strict=True)):
            yield from self.differences(left, right, f"{where}[{number}]")

    def _is_same_time(self, theirs: float, ours: float) -> bool:
        pair = self._ours.setdefault(theirs, ours), self._theirs.setdefault(ours, theirs)
        return pair == (ours, theirs)
