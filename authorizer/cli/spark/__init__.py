"""``aclog spark``."""
