"""Follow sessions while they grow."""
