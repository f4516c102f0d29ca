"""``aclog log``."""
