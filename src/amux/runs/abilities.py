"""Capabilities of the installed agents, which depend on their versions.

An agent's program is run with `--version` only if the version makes a difference, and only on a
host with a PATH: another home and the sample sessions have no programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from amux.adapters._base import Capabilities
from amux.host import Host
from amux.model.reports import AgentStatus
from amux.reading.registry import AdapterRegistry
from amux.runs.launch import detect

_FIRST_VERSION: Final = "0.0.0"
_ASKED_AT_ONCE: Final = 8


def installed_capabilities(registry: AdapterRegistry, host: Host, agent: str) -> Capabilities:
    """Return the capabilities of the installed version, or of the newest if none is installed.

    Raises:
        AgentNotFoundError: No agent has that name.
    """
    declared = registry.capabilities(agent)
    if not host.env.get("PATH"):
        return declared
    if registry.capabilities(agent, version=_FIRST_VERSION) == declared:
        return declared  # the version makes no difference
    found = detect(registry.require(agent), host)
    return registry.capabilities(agent, version=None if found is None else found.version)


def as_installed(
    statuses: Sequence[AgentStatus], registry: AdapterRegistry, host: Host
) -> tuple[AgentStatus, ...]:
    """Return the statuses with the capabilities of the installed versions."""
    from concurrent.futures import ThreadPoolExecutor

    def adjusted(status: AgentStatus) -> AgentStatus:
        able = installed_capabilities(registry, host, status.name)
        return msgspec.structs.replace(status, can_resume=able.can_resume, can_fork=able.can_fork)

    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:  # each thread waits for a program
        return tuple(pool.map(adjusted, statuses))
