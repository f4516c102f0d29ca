"""``aclog shell``: a state as a tree of names, to be walked like directories and files."""
