"""Cost reports: sums over ledger entries by group and project; the cost of one session."""
