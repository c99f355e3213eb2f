"""Droid's session log: records, messages, usage, facts."""
