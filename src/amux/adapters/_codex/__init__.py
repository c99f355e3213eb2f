"""How a Codex rollout is read: native records, texts, usage, lineage and the conversation."""
