"""``aclog check``."""
