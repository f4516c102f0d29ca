"""The history as tables of Delta Lake."""
