"""Private parts of the Hermes adapter."""
