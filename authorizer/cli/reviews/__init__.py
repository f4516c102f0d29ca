"""``aclog review``: which ACLs the requests of a window needed."""
