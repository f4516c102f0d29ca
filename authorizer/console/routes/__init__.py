"""Handlers of the console's requests."""
