"""States of the past for the console."""
