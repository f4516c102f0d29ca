"""Explanation of a decision: its reason, near misses, other hosts and the fix. `explain` combines them."""
