"""Following sessions while they grow."""
