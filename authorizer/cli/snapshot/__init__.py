"""``aclog snapshot``."""
