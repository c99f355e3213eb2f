"""The PostgreSQL backend: rows are the truth, and any number of machines share a store."""
