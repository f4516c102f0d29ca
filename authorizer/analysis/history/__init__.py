"""Sets of ACLs over time: sources of changes, blame and the history of access."""
