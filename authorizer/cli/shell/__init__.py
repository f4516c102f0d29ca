"""``aclog shell``: a state as a tree of names, browsed like directories and files."""
