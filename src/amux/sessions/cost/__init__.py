"""Cost reports: sums over ledger entries, by group, project or block; the cost of one session."""
