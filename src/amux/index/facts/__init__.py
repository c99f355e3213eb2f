"""The stored facts of every source, and which sources affect each other."""
