"""Helpers that several adapters share: JSON lines, foreign databases, values, usage, facts."""
