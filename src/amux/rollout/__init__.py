"""The formats of our own records: rollouts, the log protocol, the entry log."""
