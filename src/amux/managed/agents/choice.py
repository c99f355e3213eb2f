"""Chooses how each agent is managed, by the settings and by what is installed."""

from __future__ import annotations

from amux.managed.agents.base import AgentParts, ManagedAgent


def managed_agent(agent: str, parts: AgentParts) -> ManagedAgent:
    """Return the integration of an agent.

    Raises:
        AgentNotFoundError: No agent has that name.
    """
    parts.registry.require(agent)
    settings = parts.settings.agents
    if agent == "claude":
        from amux.managed.agents.claude import ClaudeSdkAgent, has_sdk
        from amux.managed.agents.claude_cli import ClaudeCommandAgent

        uses_sdk = settings.claude.api == "sdk" or (settings.claude.api == "auto" and has_sdk())
        kind = ClaudeSdkAgent if uses_sdk else ClaudeCommandAgent
        return kind(parts, settings.claude)
    if agent == "droid":
        from amux.managed.agents.droid import DroidAgent

        return DroidAgent(parts, settings.droid)
    if agent == "opencode":
        from amux.managed.agents.opencode_cli import OpencodeCommandAgent
        from amux.managed.agents.opencode_server import OpencodeServerAgent

        if settings.opencode.server_mode:
            return OpencodeServerAgent(parts, settings.opencode)
        return OpencodeCommandAgent(parts)
    from amux.managed.agents.command import CommandAgent

    return CommandAgent(agent, parts)
