"""aclog serve."""
