"""aclog token."""
