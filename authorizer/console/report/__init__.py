"""The console's page as one file."""
