"""The console's page as one file, for `aclog report`."""
