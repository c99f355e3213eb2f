"""The agents that managed sessions run: Claude, Droid, OpenCode, and any other by its command."""
