"""Formats of text files: sets of ACLs, changes, expectations and lint rules."""
