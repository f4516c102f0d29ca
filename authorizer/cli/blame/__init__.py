"""``aclog blame``: what in a history made an answer what it is."""
