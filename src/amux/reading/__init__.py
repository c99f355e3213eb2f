"""Reading the agents' sources: finding them, collecting their facts, streaming their messages."""
