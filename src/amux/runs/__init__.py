"""Starts the agents' own programs."""
