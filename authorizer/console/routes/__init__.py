"""What the console's page requests."""
