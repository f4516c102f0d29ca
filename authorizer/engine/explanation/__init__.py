"""Explanation: why an answer is what it is, and what would change it. `explain` puts it together."""
