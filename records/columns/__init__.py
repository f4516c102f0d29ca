"""Many records at once: columns of numpy and Arrow, from the bytes of a log to a table of ACLs. Pure."""
