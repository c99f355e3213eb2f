"""The read operations: list, find, get, search, cost, follow, diff, overview and doctor."""
