"""The file backend: one append-only rollout per thread, and an index that can be thrown away."""
