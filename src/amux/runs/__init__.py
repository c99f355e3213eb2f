"""Effects on other programs: starting the real agents."""
