"""The profiles of agents: how each stores, names, resumes and streams its sessions.

The profiles of the three agents with an integration of their own repeat the comparison of the
specification. Any other agent is run through its command line.
"""

from __future__ import annotations

from typing import Final

from amux.managed.reports import AgentSessionProfile

PROFILES: Final = {
    profile.agent: profile
    for profile in (
        AgentSessionProfile(
            agent="claude",
            storage_format="JSON file",
            storage_location="Working directory",
            session_id_format="UUID v4",
            auto_persist=True,
            resume_method="Auto with fallback",
            multi_session="List tracking",
            api_type="Python SDK",
            streaming="Native",
            session_validation="UUID format check",
            prompt_required_for_resume=False,
        ),
        AgentSessionProfile(
            agent="droid",
            storage_format="None (client-managed)",
            storage_location="N/A",
            session_id_format="UUID (client)",
            auto_persist=False,
            resume_method="Manual with flag",
            multi_session="Client managed",
            api_type="CLI/subprocess",
            streaming="JSONL",
            session_validation="None",
            prompt_required_for_resume=True,
        ),
        AgentSessionProfile(
            agent="opencode",
            storage_format="JSON + SQLite",
            storage_location="~/.local/share/opencode",
            session_id_format="Custom (ses_xxx)",
            auto_persist=True,
            resume_method="Auto or manual",
            multi_session="Project-based",
            api_type="REST API + CLI",
            streaming="SSE",
            session_validation="Server-side",
            prompt_required_for_resume=False,
        ),
    )
}


def profile_of(agent: str, *, persistence: str, can_resume: bool) -> AgentSessionProfile:
    """Return the profile of an agent; one without its own is described by its capabilities."""
    found = PROFILES.get(agent)
    if found is not None:
        return found
    return AgentSessionProfile(
        agent=agent,
        storage_format=persistence,
        storage_location="Agent's own directory",
        session_id_format="Agent's own",
        auto_persist=persistence != "none",
        resume_method="Manual with flag" if can_resume else "None",
        multi_session="Agent's own list",
        api_type="CLI/subprocess",
        streaming="JSONL",
        session_validation="By the agent",
        prompt_required_for_resume=True,
    )
