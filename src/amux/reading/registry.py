"""The adapters of a client: built in, installed by packages, or registered at run time."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Literal

import msgspec

from amux.adapters import BUILTIN, external_names, load_builtin
from amux.adapters._base import Adapter, AgentInfo, Capabilities
from amux.adapters.plugin import as_adapter, load_plugin
from amux.errors import AgentNotFoundError


class AdapterRegistry:
    """Finds adapters by name and imports each on first use."""

    def __init__(self) -> None:
        self._loaded: dict[str, Adapter] = {}
        self._registered: dict[str, Adapter] = {}
        self._removed: set[str] = set()

    def register(self, adapter: object) -> None:
        """Add an adapter: the full protocol, or the specification's three session methods."""
        checked = as_adapter(adapter)
        self._registered[checked.info.name] = checked
        self._removed.discard(checked.info.name)

    def unregister(self, agent: str) -> None:
        """Remove an adapter; its name is unknown from now on."""
        self._registered.pop(agent, None)
        self._loaded.pop(agent, None)
        self._removed.add(agent)

    def get(self, agent: str) -> Adapter | None:
        """Return the adapter with that name, or None."""
        if agent in self._removed:
            return None
        adapter = self._registered.get(agent) or self._loaded.get(agent)
        if adapter is None:
            adapter = load_builtin(agent) or load_plugin(agent)
            if adapter is not None:
                self._loaded[agent] = adapter
        return adapter

    def require(self, agent: str) -> Adapter:
        """Return the adapter with that name; raise `AgentNotFoundError` if there is none."""
        adapter = self.get(agent)
        if adapter is None:
            raise AgentNotFoundError(
                f"no agent is called `{agent}`", hint=f"known agents: {', '.join(self.names())}"
            )
        return adapter

    def knows(self, agent: str) -> bool:
        """Return whether the name is valid in unified ids; imports no adapter."""
        if agent in self._removed:
            return False
        return agent in self._registered or agent in BUILTIN or agent in external_names()

    def is_indexable(self, agent: str) -> bool:
        """Return whether the agent's sessions may be indexed; imports no built-in adapter."""
        if agent in BUILTIN:  # a replacement must not use the index of the adapter it replaces
            return agent not in self._registered and agent not in self._removed
        adapter = self.get(agent)
        return adapter is not None and adapter.info.indexable

    @property
    def is_as_installed(self) -> bool:
        """Whether this process has added no adapter at run time and removed none."""
        return not (self._registered or self._removed)

    def names(self, offered: Sequence[str] | None = None) -> tuple[str, ...]:
        """Return all names: built-in ones first, then those of packages and of callers.

        `offered` are the names of adapters in packages, if the caller has them already.
        """
        offered = external_names() if offered is None else offered
        names = dict.fromkeys((*BUILTIN, *offered, *self._registered))
        return tuple(name for name in names if name not in self._removed)

    def list(self) -> builtins.list[AgentInfo]:
        """Return the known agents."""
        return [self.require(name).info for name in self.names()]

    def capabilities(self, agent: str, *, version: str | None = None) -> Capabilities:
        """Return the capabilities of an agent, by default those of the newest known version."""
        adapter = self.require(agent)
        declared = adapter.info.capabilities
        if version is None:
            return declared

        def can(action: Literal["resume", "fork"]) -> bool:
            # Some agents support the action only in a terminal, some only with a prompt.
            return any(
                adapter.command(action, session_id="id", prompt=prompt, version=version)
                for prompt in (None, "prompt")
            )

        return msgspec.structs.replace(
            declared,
            can_resume=declared.can_resume and can("resume"),
            can_fork=declared.can_fork and can("fork"),
        )
