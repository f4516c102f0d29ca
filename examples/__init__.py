"""Things to run and to read."""
