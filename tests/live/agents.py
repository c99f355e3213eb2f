"""The agents that the live tests run: their settings, variables and peculiarities.

The agents' command lines are not here: amux has them. What a test must know about an agent's files
(`abandons_killed_prompt`, `unrecorded`, `recorded_model`) is also on its page in docs/agents.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from fake_model import HELPER_TEXT
from live_agent import Agent
from model_protocols import Tool

Json = dict[str, Any]
_KEY: Final = "not-a-key"
_PRICES: Final = {"input": 3, "output": 15}


class Claude(Agent):
    """Claude Code, with Anthropic's Messages."""

    name = "claude"
    label = "Claude Code"
    stores = (".claude/projects/*/*.jsonl",)
    # As root it refuses to skip its permission checks; the allowed tools it takes.
    args = ("--allowedTools", "Bash,Agent")
    wanted_model = "claude-opus-5-5"

    def variables(self) -> dict[str, str]:
        quiet = (
            "DISABLE_TELEMETRY",
            "DISABLE_ERROR_REPORTING",
            "DISABLE_AUTOUPDATER",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        )
        return {
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": _KEY,
            "CLAUDE_CODE_MAX_RETRIES": "0",
            **dict.fromkeys(quiet, "1"),
        }

    @classmethod
    def shell(cls, command: str) -> Tool:
        return Tool("Bash", {"command": command, "description": "A command of the test"})


class Codex(Agent):
    """Codex, with OpenAI's Responses."""

    name = "codex"
    label = "Codex"
    stores = (".codex/sessions/*/*/*/*.jsonl",)
    args = ("--skip-git-repo-check",)

    def configure(self) -> None:
        settings = _CODEX_SETTINGS.format(url=self.model.url, project=self.project)
        _write(self.home / ".codex" / "config.toml", settings)

    def variables(self) -> dict[str, str]:
        return {"FAKE_API_KEY": _KEY}

    @classmethod
    def shell(cls, command: str) -> Tool:
        return Tool("exec_command", {"cmd": command})


class OpenCode(Agent):
    """OpenCode, with Anthropic's Messages."""

    name = "opencode"
    label = "OpenCode"
    stores = (".local/share/opencode/opencode.db*",)
    wanted_model = "fake/fake-large"
    looks_outside = ("registry.npmjs.org:",)
    made_title = HELPER_TEXT

    def configure(self) -> None:
        limits = {"context": 200000, "output": 8192}
        model = {"name": "Fake", "reasoning": True, "tool_call": True, "limit": limits}
        provider = {
            "npm": "@ai-sdk/anthropic",
            "name": "Fake",
            "options": {"baseURL": f"{self.model.url}/v1", "apiKey": _KEY},
            "models": {"fake-large": {**model, "cost": _PRICES}},
        }
        settings = {
            "autoupdate": False,
            "share": "manual",
            "model": self.wanted_model,
            "small_model": self.wanted_model,
            "provider": {"fake": provider},
        }
        _write_json(self.home / ".config" / "opencode" / "opencode.json", settings)

    def variables(self) -> dict[str, str]:
        off = (
            "AUTOUPDATE", "MODELS_FETCH", "DEFAULT_PLUGINS", "LSP_DOWNLOAD", "CLAUDE_CODE",
            "EXTERNAL_SKILLS", "SHARE",
        )  # fmt: skip
        return {f"OPENCODE_DISABLE_{name}": "1" for name in off}

    @classmethod
    def shell(cls, command: str) -> Tool:
        return Tool("bash", {"command": command, "description": "A command of the test"})


class Pi(Agent):
    """Pi, with Anthropic's Messages."""

    name = "pi"
    label = "Pi"
    stores = (".pi/agent/sessions/*/*.jsonl",)
    wanted_model = "fake/fake-large"

    def configure(self) -> None:
        models = _pi_models(self.model.url)
        _write_json(self.home / ".pi" / "agent" / "models.json", models)

    def variables(self) -> dict[str, str]:
        return {"PI_OFFLINE": "1", "PI_TELEMETRY": "0"}

    @classmethod
    def shell(cls, command: str) -> Tool:
        return Tool("bash", {"command": command})


class Omp(Pi):
    """oh-my-pi, with OpenAI's Chat Completions: of Anthropic's answers it records no thoughts."""

    name = "omp"
    label = "oh-my-pi"
    stores = (".omp/agent/sessions/*/*.jsonl",)
    approval = "yolo"
    looks_outside = ("",)  # for the models of a dozen providers

    def configure(self) -> None:
        folder = self.home / ".omp" / "agent"
        models = _pi_models(f"{self.model.url}/v1", api="openai-completions")
        _write_json(folder / "models.yml", models)  # JSON is YAML
        roles = dict.fromkeys(("default", "smol", "slow", "task"), self.wanted_model)
        settings = {"modelRoles": roles, "startup": {"checkUpdate": False}}
        _write_json(folder / "config.yml", settings)

    @classmethod
    def shell(cls, command: str) -> Tool:
        return Tool("bash", {"command": command})


class Hermes(Agent):
    """Hermes Agent, with OpenAI's Chat Completions."""

    name = "hermes"
    label = "Hermes Agent"
    stores = (".hermes/state.db*",)
    looks_outside = ("pypi.org:",)
    approval = "yolo"

    def configure(self) -> None:
        model = {
            "default": "fake-model",
            "provider": "custom",
            "base_url": f"{self.model.url}/v1",
            "api_key": _KEY,
            "context_length": 200000,
        }
        settings = {
            "model": model,
            "display": {"show_reasoning": False},
            "security": {"allow_lazy_installs": False, "tirith_enabled": False},
        }
        _write_json(self.home / ".hermes" / "config.yaml", settings)

    @classmethod
    def shell(cls, command: str) -> Tool:
        return Tool("terminal", {"command": command})


class GeminiCli(Agent):
    """Gemini CLI, with Google's generateContent."""

    name = "gemini"
    label = "Gemini CLI"
    stores = (".gemini/tmp/*/chats/*.jsonl",)
    approval = "yolo"
    wanted_model = "gemini-2.5-pro"

    def configure(self) -> None:
        folder = self.home / ".gemini"
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
        }
        _write_json(folder / "settings.json", settings)
        _write_json(folder / "trustedFolders.json", {str(self.project): "TRUST_FOLDER"})

    def variables(self) -> dict[str, str]:
        return {"GEMINI_API_KEY": _KEY, "GOOGLE_GEMINI_BASE_URL": self.model.url}

    @classmethod
    def shell(cls, command: str) -> Tool:
        return Tool("run_shell_command", {"command": command})


class Qwen(Agent):
    """Qwen Code, with OpenAI's Chat Completions."""

    name = "qwen"
    label = "Qwen Code"
    stores = (".qwen/projects/*/chats/*.jsonl",)
    approval = "yolo"

    def configure(self) -> None:
        settings = {
            "security": {"auth": {"selectedType": "openai"}},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
            "memory": {"enableManagedAutoMemory": False},
        }
        _write_json(self.home / ".qwen" / "settings.json", settings)

    def variables(self) -> dict[str, str]:
        url = f"{self.model.url}/v1"
        return {"OPENAI_API_KEY": _KEY, "OPENAI_BASE_URL": url, "OPENAI_MODEL": "fake-model"}

    @classmethod
    def shell(cls, command: str) -> Tool:
        return Tool("run_shell_command", {"command": command, "is_background": False})


class Copilot(Agent):
    """GitHub Copilot CLI, with OpenAI's Responses."""

    name = "copilot"
    label = "Copilot CLI"
    stores = (".copilot/session-state/*/events.jsonl",)
    approval = "yolo"

    def variables(self) -> dict[str, str]:
        return {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": f"{self.model.url}/v1",
            "COPILOT_PROVIDER_API_KEY": _KEY,
            "COPILOT_PROVIDER_WIRE_API": "responses",
            "COPILOT_MODEL": "fake-model",
            "COPILOT_AUTO_UPDATE": "false",
        }

    @classmethod
    def shell(cls, command: str) -> Tool:
        return Tool("bash", {"command": command, "description": "A command of the test"})


class Droid(Agent):
    """Droid, with OpenAI's Chat Completions."""

    name = "droid"
    label = "Droid"
    stores = (".factory/sessions/*/*.jsonl",)
    approval = "yolo"
    wanted_model = "custom:Fake-Model-0"
    recorded_model = "custom:Fake-Model-0"
    side_paths = ("/api/",)
    looks_outside = ("telemetry.factory.ai:",)
    unrecorded = ("thinking",)  # it writes 0 for every answer of this protocol

    def configure(self) -> None:
        model = {
            "model": "fake-model",
            "displayName": "Fake Model",
            "baseUrl": f"{self.model.url}/v1",
            "apiKey": _KEY,
            "provider": "generic-chat-completion-api",
        }
        settings = {"customModels": [model], "cloudSessionSync": False}
        _write_json(self.home / ".factory" / "settings.json", settings)

    def variables(self) -> dict[str, str]:
        addresses = dict.fromkeys(("FACTORY_API_BASE_URL", "FACTORY_APP_BASE_URL"), self.model.url)
        return {"FACTORY_API_KEY": "fk-dummy", **addresses}

    @classmethod
    def shell(cls, command: str) -> Tool:
        risk = {"riskLevel": "low", "riskLevelReason": "It is a test."}
        return Tool("Execute", {"command": command, "summary": "A command", **risk})


class OpenClaw(Agent):
    """OpenClaw, with OpenAI's Chat Completions."""

    name = "openclaw"
    label = "OpenClaw"
    stores = (".openclaw/agents/*/agent/openclaw-agent.sqlite*",)
    detaches_child = True
    abandons_killed_prompt = True

    def configure(self) -> None:
        model = {"id": "fake-model", "name": "Fake", "reasoning": True, "contextWindow": 200000}
        provider = {
            "baseUrl": f"{self.model.url}/v1",
            "apiKey": _KEY,
            "api": "openai-completions",
            "models": [{**model, "maxTokens": 8192, "input": ["text"]}],
        }
        defaults = {"workspace": str(self.project), "model": {"primary": "fake/fake-model"}}
        settings = {
            "models": {"providers": {"fake": provider}},
            "agents": {"defaults": defaults},
        }
        _write_json(self.home / ".openclaw" / "openclaw.json", settings)

    @classmethod
    def shell(cls, command: str) -> Tool:
        return Tool("exec", {"command": command})


AGENTS: Final[tuple[type[Agent], ...]] = (
    Claude, Codex, OpenCode, Pi, Hermes, GeminiCli, Qwen, Copilot, Droid, Omp, OpenClaw,
)  # fmt: skip


def _pi_models(url: str, *, api: str = "anthropic-messages") -> Json:
    """The settings of Pi and its fork for one model."""
    prices = {**_PRICES, "cacheRead": 0.3, "cacheWrite": 3.75}
    sizes = {"contextWindow": 200000, "maxTokens": 8192}
    model = {"id": "fake-large", "name": "Fake", "reasoning": True, "input": ["text"], **sizes}
    provider = {"baseUrl": url, "api": api, "apiKey": _KEY}
    return {"providers": {"fake": {**provider, "models": [{**model, "cost": prices}]}}}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _write_json(path: Path, content: Json) -> None:
    _write(path, json.dumps(content, indent=2))


_CODEX_SETTINGS: Final = """
model = "gpt-5.5"
model_provider = "fake"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
env_key = "FAKE_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false

[features] # these look outside or stay behind
apps = false
plugins = false
daemon_auto_start = false
enable_request_compression = false

[projects."{project}"]
trust_level = "trusted"
"""
