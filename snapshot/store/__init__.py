"""Stored snapshots: where they are, what is in one, writing, reading and removing them."""
