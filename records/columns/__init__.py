"""Columnar decoding with numpy and Arrow, from the bytes of a log to a table of ACLs. Pure."""
