"""Private parts of the adapter for `agent`."""
