"""Lifecycle hooks, restore, message sources, redaction and reset policies over the store."""
