"""``aclog plan`` and ``aclog apply``."""
