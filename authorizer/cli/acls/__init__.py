"""``aclog acls``."""
