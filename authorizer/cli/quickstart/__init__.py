"""``aclog quickstart``."""
