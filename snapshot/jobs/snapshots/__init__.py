"""The job that builds snapshots."""
